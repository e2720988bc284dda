import http, { type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Adapter, asProvider } from "../../../services/ai/providers/adapter.ts";
import { createHttpClient, joinUrl } from "../../../services/ai/providers/http-client.ts";
import { DEFAULT_BOUNDS, type Prompt, type Provider } from "../../../services/ai/providers/provider.ts";
import { watchTurns, workFor } from "../../support/turns.ts";
import { times, until } from "../../support/until.ts";
import { readStream, readWhole } from "./support.ts";

const CALLS = 200;

describe("a provider that answers many calls at once holds up nobody else", () => {
  const waiting: ServerResponse[] = [];
  let heard = 0;
  let provider: Provider;
  const server = http.createServer((request, response) => {
    request.resume().on("end", () => waiting.push(response));
  });
  const wire = createHttpClient(5_000);
  beforeEach(async () => {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const target = joinUrl(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, "chat");
    /** A dialect in which each document costs a millisecond. */
    const read = () => {
      workFor(1);
      heard += 1;
      return { text: "x", finished: true, over: true };
    };
    const send: Adapter["send"] = (_prompt, _stream, signal) => wire.post(target, {}, {}, signal);
    provider = asProvider("provider-a", { send, parseEvent: read, parseBody: read }, DEFAULT_BOUNDS);
  });
  afterEach(() => {
    wire.close();
    server.close();
    waiting.length = heard = 0;
  });

  /** How many documents are read in one turn at most. */
  async function mostReadAtOnce(ask: typeof readStream, type: string, document: string): Promise<number> {
    const answers = times(CALLS, () => ask(provider, {} as Prompt));
    await until("all to be asked", () => waiting.length === CALLS);
    for (const response of waiting) response.writeHead(200, { "content-type": type }).flushHeaders();
    const most = watchTurns(() => heard);
    for (const response of waiting) response.end(document);
    for (const outcome of await Promise.all(answers)) expect(outcome).toMatchObject({ text: "x" });
    return most();
  }

  test.each([
    ["by streams", readStream, "text/event-stream", "data: {}\n\n"],
    ["by documents", readWhole, "application/json", "{}"],
  ] as const)("%s", async (_how, ask, type, document) => {
    expect(await mostReadAtOnce(ask, type, document)).toBeLessThan(CALLS / 2);
  });
});
