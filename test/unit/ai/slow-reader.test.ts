import { once } from "node:events";
import http, { type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type Adapter, createProvider } from "../../../services/ai/providers/adapter.ts";
import type { ParsedEvent } from "../../../services/ai/providers/decode.ts";
import { createHttpClient, joinUrl } from "../../../services/ai/providers/http-client.ts";
import { DEFAULT_BOUNDS, type Prompt, type Provider } from "../../../services/ai/providers/provider.ts";
import { until } from "../../support/until.ts";

const IDLE_MS = 150;
const prompt = {} as Prompt;

const server = http.createServer();
const wire = createHttpClient(5_000);

let provider: Provider;
beforeAll(() => new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve)));
beforeEach(() => {
  const target = joinUrl(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, "chat");
  const send: Adapter["send"] = (_prompt, _stream, signal) => wire.post(target, {}, {}, signal);
  /** A dialect whose events say what they mean. */
  const event = (parsed: object): ParsedEvent => parsed;
  provider = createProvider({ send, parseEvent: event, parseBody: event }, { ...DEFAULT_BOUNDS, idleMs: IDLE_MS });
});
afterAll(() => {
  wire.close();
  server.close();
});

/** The provider's side of the next call: what it says. */
async function asked(): Promise<{ say(meaning: ParsedEvent): void; response: ServerResponse }> {
  const [request, response] = (await once(server, "request")) as [IncomingMessage, ServerResponse];
  request.resume();
  response.writeHead(200, { "content-type": "text/event-stream" });
  return { say: (meaning) => void response.write(`data: ${JSON.stringify(meaning)}\n\n`), response };
}

/** Reads a stream; holds on to the first piece until `release` is called. */
function readSlowly(client: AbortSignal) {
  const { promise, resolve: release } = Promise.withResolvers<void>();
  const pieces: string[] = [];
  const read = async () => {
    for await (const piece of provider.stream(prompt, client)) {
      if (pieces.push(piece) === 1) await promise;
    }
  };
  return { pieces, release, reading: read() };
}

test("a stream fails if it is aborted while its last piece is being read, though every piece carries a finish marker", async () => {
  const client = new AbortController();
  const { pieces, release, reading } = readSlowly(client.signal);
  const { say } = await asked();
  say({ text: "some", finished: "stop" });
  await until("the first piece", () => pieces.length === 1);
  say({ text: " more", finished: "stop" });
  const reason = new Error("The session has ended.");
  client.abort(reason);
  release();
  await expect(reading).rejects.toBe(reason);
});

test("a stream whose complete reply has arrived fails if it is aborted before the reply is read", async () => {
  const client = new AbortController();
  const { pieces, release, reading } = readSlowly(client.signal);
  const { say } = await asked();
  say({ text: "all", finished: "stop", over: true });
  await until("the first piece", () => pieces.length === 1);
  const reason = new Error("The session has ended.");
  client.abort(reason);
  release();
  await expect(reading).rejects.toBe(reason);
});

test("text that arrives while the reader is busy is one piece, and the idle timer pauses meanwhile", async () => {
  const { pieces, release, reading } = readSlowly(new AbortController().signal);
  const { say, response } = await asked();
  say({ text: "some" });
  await until("the first piece", () => pieces.length === 1);
  say({ text: " more" });
  say({ text: ", and more" });
  await wait(2 * IDLE_MS);
  release();
  await until("the second piece", () => pieces.length === 2);
  say({ text: ".", finished: "stop" });
  response.end();
  await reading;
  expect(pieces).toEqual(["some", " more, and more", "."]);
});

test("leaving a stream that waits for its next piece closes the upstream connection", async () => {
  const pieces = provider.stream(prompt, new AbortController().signal)[Symbol.asyncIterator]();
  void pieces.next();
  const { say, response } = await asked();
  const left = pieces.return?.();
  const closed = once(response, "close");
  say({ text: "some" });
  await left;
  expect(await pieces.next()).toEqual({ done: true, value: undefined });
  await closed;
});
