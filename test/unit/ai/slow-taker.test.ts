import { once } from "node:events";
import http, { type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type Adapter, asProvider } from "../../../services/ai/providers/adapter.ts";
import type { ParsedEvent } from "../../../services/ai/providers/decode.ts";
import { createHttpClient, joinUrl } from "../../../services/ai/providers/http-client.ts";
import { DEFAULT_BOUNDS, type Prompt, type Provider } from "../../../services/ai/providers/provider.ts";
import { inLine } from "../../../services/process/turns.ts";
import { until } from "../../support/until.ts";
import { textsOf } from "./support.ts";

const IDLE_MS = 150;
const prompt = {} as Prompt;

const server = http.createServer();
const wire = createHttpClient(5_000);
let heard: ParsedEvent[];
let provider: Provider;
beforeAll(() => new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve)));
beforeEach(() => {
  heard = [];
  const target = joinUrl(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, "chat");
  const send: Adapter["send"] = (_prompt, _stream, signal) => wire.post(target, {}, {}, signal);
  /** A dialect whose events say what they mean. */
  const event = (meaning: ParsedEvent) => {
    heard.push(meaning);
    return meaning;
  };
  provider = asProvider(
    "provider-a",
    { send, parseEvent: event, parseBody: event },
    { ...DEFAULT_BOUNDS, idleMs: IDLE_MS },
  );
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

/** Takes texts; holds up the first until it is let go. */
function slowTaker() {
  const { promise, resolve: letGo } = Promise.withResolvers<void>();
  const taken: string[] = [];
  const take = (text: string) => (taken.push(text) === 1 ? promise : undefined);
  return { taken, take, letGo };
}

test("a reply that is given up while its text is being taken doesn't end well, where every piece might be the last", async () => {
  const { taken, take, letGo } = slowTaker();
  const client = new AbortController();
  const reading = provider.stream(prompt, take, client.signal);
  const { say } = await asked();
  say({ text: "some", finished: true });
  await until("the first text", () => taken.length === 1);
  say({ text: " more", finished: true });
  const reason = new Error("The session has ended.");
  client.abort(reason);
  letGo();
  await expect(reading).rejects.toBe(reason);
});

test("in a busy process too, the silence of a reply that is held up isn't the provider's", async () => {
  const { taken, take, letGo } = slowTaker();
  let isBusy = true;
  const work = () => void (isBusy && inLine(work));
  work();
  const reading = provider.stream(prompt, take, new AbortController().signal);
  const { say, response } = await asked();
  say({ text: "some" });
  say({ text: " more" });
  await until("both texts to be heard, after the first is being taken", () => heard.length === 2 && taken.length === 1);
  isBusy = false;
  await wait(2 * IDLE_MS);
  letGo();
  say({ text: ".", finished: true });
  response.end();
  await reading;
  expect(taken.join("")).toBe("some more.");
});

test("whoever leaves while the next text is awaited has left when it comes", async () => {
  const texts = textsOf(provider, prompt, new AbortController().signal)[Symbol.asyncIterator]();
  const awaited = texts.next();
  const { say, response } = await asked();
  const left = texts.return?.();
  const closed = once(response, "close");
  say({ text: "some" });
  await left;
  expect(await awaited).toEqual({ done: true, value: undefined });
  await closed;
});
