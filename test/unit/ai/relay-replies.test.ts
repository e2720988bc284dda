import type { IncomingMessage } from "node:http";
import { PassThrough } from "node:stream";
import { afterEach, describe, expect, test, vi } from "vitest";
import { readCatalogue } from "../../../services/ai/catalogue.ts";
import { anthropicAdapter } from "../../../services/ai/providers/anthropic.ts";
import { openaiAdapter } from "../../../services/ai/providers/openai.ts";
import { DEFAULT_BOUNDS, type RelayPrompt } from "../../../services/ai/providers/provider.ts";
import { framesOf, providerAnswering } from "./support.ts";

const [model] = readCatalogue().providers.flatMap(({ models }) => models);
const ADAPTERS = { messages: anthropicAdapter, responses: openaiAdapter };
type Api = keyof typeof ADAPTERS;

/** A reply that is passed on, and how it is written to. */
function openRelay(api: Api, isStream: boolean) {
  const message = new PassThrough() as unknown as PassThrough & IncomingMessage;
  Object.assign(message, { statusCode: 200, headers: {}, complete: false });
  const post = async (_to: object, _headers: object, _body: object, signal: AbortSignal) => {
    signal.addEventListener("abort", () => message.destroy(new Error("aborted")));
    return message;
  };
  const relay = { api, bytes: 0, images: 0, files: 0, bodyFor: () => "{}", headers: {} };
  const prompt = { model, isStream, relay } as unknown as RelayPrompt;
  const seen = { data: "", end: "", usage: undefined as object | undefined };
  const read = async () => {
    const provider = providerAnswering(ADAPTERS[api], post);
    try {
      for await (const event of provider(prompt as never, new AbortController().signal)) {
        if (event.kind === "relayed") seen.data += event.data;
        if (event.kind === "usage") seen.usage = event.usage;
        if (event.kind === "finished") seen.end = event.reason;
      }
    } catch (error) {
      seen.end = (error as Error).message;
    }
    return seen;
  };
  return { message, reading: read() };
}

async function relay(api: Api, isStream: boolean, body: string) {
  const { message, reading } = openRelay(api, isStream);
  message.end(body);
  return reading;
}

const content = [{ type: "text", text: "Hi" }];
const counts = { input_tokens: 9, output_tokens: 2 };
const whole = { type: "message", content, stop_reason: "end_turn", usage: counts };
const output = [{ type: "message", content: [{ type: "output_text", text: "Hi" }] }];
const response = { object: "response", status: "completed", output, usage: counts };

/** Events of Anthropic's API. */
const START = { type: "message_start", message: { usage: { input_tokens: 9, output_tokens: 1 } } };
const TEXT = { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hi" } };
const END = { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: counts };
const STOP = { type: "message_stop" };

type Whole = { api: Api; what: string; body: string; end: string };
const WHOLE: Whole[] = [
  { api: "messages", what: "a message", body: JSON.stringify(whole), end: "stop" },
  { api: "messages", what: "lines", body: JSON.stringify(whole, null, 2), end: "stop" },
  { api: "responses", what: "a response", body: JSON.stringify(response), end: "stop" },
  {
    api: "messages",
    what: "a stream of events",
    body: framesOf(START, TEXT, END, STOP),
    end: "unreadable reply",
  },
  {
    api: "messages",
    what: "a message as an event",
    body: framesOf(whole),
    end: "unreadable reply",
  },
  {
    api: "responses",
    what: "a response as an event",
    body: framesOf({ type: "response.completed", response }),
    end: "unreadable reply",
  },
  {
    api: "messages",
    what: "two messages",
    body: `${JSON.stringify(whole)}\n${JSON.stringify(whole)}`,
    end: "unreadable reply",
  },
  ...["data: [DONE]\n\n", "upstream closed\n", "\u0000", ": comment\n"].map((rest) => ({
    api: "messages" as const,
    what: `a message, then ${JSON.stringify(rest)}`,
    body: `${JSON.stringify(whole)}\n${rest}`,
    end: "unreadable reply",
  })),
  {
    api: "messages",
    what: "a message between blank lines",
    body: `\n\n${JSON.stringify(whole)}\r\n`,
    end: "stop",
  },
  {
    api: "messages",
    what: "half a message",
    body: JSON.stringify(whole).slice(0, -9),
    end: "unreadable reply",
  },
  {
    api: "messages",
    what: "a message without an end",
    body: JSON.stringify({ ...whole, stop_reason: null }),
    end: "broke off",
  },
  {
    api: "responses",
    what: "a response that goes on",
    body: JSON.stringify({ ...response, status: "in_progress" }),
    end: "broke off",
  },
  { api: "messages", what: "a page", body: "<html>Sign in</html>", end: "unreadable reply" },
];

test.each(WHOLE)("A complete reply of $api is one document, or fails: $what", async (reply) => {
  const { data, end } = await relay(reply.api, false, reply.body);
  expect({ data, end }).toEqual({ data: reply.end === "stop" ? reply.body : "", end: reply.end });
});

describe("A relayed stream of messages", () => {
  test("has no usage if it is interrupted after its counts", async () => {
    const delta = { ...END, delta: { stop_reason: null } };
    const { end, usage } = await relay("messages", true, framesOf(START, delta, TEXT));
    expect({ end, usage }).toEqual({ end: "broke off", usage: undefined });
  });

  test("is incomplete if an unknown document precedes its closing event", async () => {
    const body = framesOf(START, TEXT, { detail: "Internal Server Error" }, STOP);
    const { data, end } = await relay("messages", true, body);
    expect(end).toBe("broke off");
    expect(data).not.toContain("message_stop");
  });
});

/** Events that end a stream of the Responses API, and what that means. */
const ENDS: [name: string, response: object, end: string][] = [
  ["completed", { status: "completed" }, "stop"],
  ["completed", {}, "stop"],
  ["completed", { status: "failed" }, "broke off"],
  ["completed", { status: "cancelled" }, "broke off"],
  ["completed", { status: "incomplete" }, "length"],
  ["incomplete", { status: "completed" }, "length"],
  ["incomplete", {}, "length"],
  ["incomplete", { incomplete_details: { reason: "content_filter" } }, "blocked the content"],
  ["failed", { status: "failed", error: { code: "rate_limit_exceeded" } }, "rate limited"],
  ["failed", { error: { code: "server_error" } }, "internal error"],
  ["failed", { status: "completed" }, "broke off"],
  ["failed", {}, "broke off"],
];

test.each(ENDS)(
  "A relayed stream of responses ends with response.%s and %j: %s",
  async (name, response, end) => {
    const text = { type: "response.output_text.delta", delta: "Hi" };
    const body = framesOf(text, { type: `response.${name}`, response });
    expect((await relay("responses", true, body)).end).toBe(end);
  },
);

test("A relayed stream of messages fails if another message begins after the first text", async () => {
  const body = framesOf(START, TEXT, START, TEXT, END, STOP);
  expect(await relay("messages", true, body)).toMatchObject({
    data: framesOf(START, TEXT),
    end: "unreadable reply",
  });
});

describe("The idle timeout of a stream", () => {
  afterEach(() => void vi.useRealTimers());

  /** Sends an event every second for longer than a silence may last. */
  async function repeat(event: string) {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
    const { message, reading } = openRelay("messages", true);
    message.write(framesOf(START));
    for (let ms = 0; ms <= DEFAULT_BOUNDS.idleMs; ms += 1000) {
      await vi.advanceTimersByTimeAsync(1000);
      if (!message.destroyed) message.write(event);
      await new Promise((resolve) => setImmediate(resolve));
    }
    if (!message.destroyed) message.end(framesOf(END, STOP));
    return (await reading).end;
  }

  test.each([
    ": comment\n\n",
    "event: ping\ndata: {}\n\n",
    'id: 7\nevent: ping\ndata: {"type":"ping"}\n\n',
    'data: {"type":"ping"}\n\n',
    'data:{ "type": "keepalive" }\n\n',
  ])("is not reset by %j", async (event) => {
    expect(await repeat(event)).toBe("timed out");
  });

  test.each([framesOf(TEXT), `: comment\n${framesOf(TEXT)}`, `id: 7\n${framesOf(TEXT)}`])(
    "is reset by %j",
    async (event) => {
      expect(await repeat(event)).toBe("stop");
    },
  );
});
