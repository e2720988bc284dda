import { once } from "node:events";
import http, { type IncomingMessage, type ServerResponse } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Adapter, createProvider } from "../../../services/ai/providers/adapter.ts";
import type { ParsedEvent } from "../../../services/ai/providers/decode.ts";
import { createHttpClient, joinUrl } from "../../../services/ai/providers/http-client.ts";
import type { Prompt, Provider } from "../../../services/ai/providers/provider.ts";
import { DEFAULT_BOUNDS } from "../../../services/ai/providers/provider.ts";
import { listen } from "../../support/sockets.ts";
import { until } from "../../support/until.ts";

const IDLE_MS = 500;
const prompt = {} as Prompt;
const SOME: ParsedEvent = { text: "some", finished: "stop" };

const server = http.createServer();
const wire = createHttpClient(5_000);

let provider: Provider;
beforeAll(async () => {
  const target = joinUrl(`http://127.0.0.1:${await listen(server)}`, "chat");
  const send: Adapter["send"] = (_prompt, _stream, signal) => wire.post(target, {}, {}, signal);
  /** A dialect whose events are parsed events. */
  const event = (parsed: object): ParsedEvent => parsed;
  provider = createProvider({ send, parseEvent: event, parseBody: event }, { ...DEFAULT_BOUNDS, idleMs: IDLE_MS });
});
afterAll(() => {
  wire.close();
  server.close();
});

/** The provider's side of the next call. */
async function nextCall(): Promise<{ sendEvent(meaning: ParsedEvent): void; response: ServerResponse }> {
  const [request, response] = (await once(server, "request")) as [IncomingMessage, ServerResponse];
  request.resume();
  response.writeHead(200, { "content-type": "text/event-stream" });
  return { sendEvent: (meaning) => void response.write(`data: ${JSON.stringify(meaning)}\n\n`), response };
}

/** Reads a stream, and waits after the first piece until `release` is called. */
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

test.each<[string, ParsedEvent[]]>([
  ["while its last piece is read, though every piece has a finish marker", [SOME, { text: " more", finished: "stop" }]],
  ["after the reply has arrived and before it is read", [{ ...SOME, over: true }]],
])("Provider stream: fails if it is aborted %s", async (_when, [first, ...more]) => {
  const client = new AbortController();
  const { pieces, release, reading } = readSlowly(client.signal);
  const { sendEvent } = await nextCall();
  sendEvent(first as ParsedEvent);
  await until("the first piece", () => pieces.length === 1);
  for (const event of more) sendEvent(event);
  const reason = new Error("The session has ended.");
  client.abort(reason);
  release();
  await expect(reading).rejects.toBe(reason);
});

test("Provider stream: joins text that arrives while the reader is busy, and the idle timer pauses then", async () => {
  const { pieces, release, reading } = readSlowly(new AbortController().signal);
  const { sendEvent, response } = await nextCall();
  sendEvent({ text: "some" });
  await until("the first piece", () => pieces.length === 1);
  sendEvent({ text: " more" });
  sendEvent({ text: ", and more" });
  await wait(2 * IDLE_MS);
  release();
  await until("the second piece", () => pieces.length === 2);
  sendEvent({ text: ".", finished: "stop" });
  response.end();
  await reading;
  expect(pieces).toEqual(["some", " more, and more", "."]);
});

test("Provider stream, complete reply: a signal that has fired already sends no request", async () => {
  let requests = 0;
  server.on("request", () => requests++);
  const reason = new Error("The client has gone.");
  const stream = provider.stream(prompt, AbortSignal.abort(reason))[Symbol.asyncIterator]();
  await expect(stream.next()).rejects.toBe(reason);
  await expect(provider.complete(prompt, AbortSignal.abort(reason))).rejects.toBe(reason);
  await wait(20);
  expect(requests).toBe(0);
});
