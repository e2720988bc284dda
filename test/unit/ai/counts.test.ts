import { expect, test } from "vitest";
import { anthropicAdapter } from "../../../services/ai/providers/anthropic.ts";
import { googleAdapter } from "../../../services/ai/providers/google.ts";
import { openaiAdapter } from "../../../services/ai/providers/openai.ts";
import { decode, decodeDocument, framesOf } from "./support.ts";

type Counts = Record<string, unknown>;
const LARGE = 2 ** 30;

/**
 * Anthropic's counts at the start and at the end of a stream, and the usage; undefined means an
 * estimate.
 */
const COUNTS: [
  start: Counts | null,
  end: Counts | null,
  usage: [input: number, output: number] | undefined,
][] = [
  [{ input_tokens: 11, output_tokens: 2 }, { output_tokens: 7 }, [11, 7]],
  [
    { input_tokens: 11, cache_read_input_tokens: 2000 },
    { input_tokens: 11, output_tokens: 7 },
    [2011, 7],
  ],
  [
    { input_tokens: 11, cache_read_input_tokens: 2000, cache_creation_input_tokens: 5 },
    {
      input_tokens: 12,
      cache_read_input_tokens: 0,
      cache_creation_input_tokens: null,
      output_tokens: 7,
    },
    [2017, 7], // counts only grow
  ],
  [null, { input_tokens: 11, cache_creation_input_tokens: 5, output_tokens: 7 }, [16, 7]],
  [
    { input_tokens: 11, cache_read_input_tokens: null },
    { input_tokens: null, output_tokens: 7 },
    [11, 7],
  ],
  [{ input_tokens: 11, output_tokens: 2 }, null, undefined],
  [{ cache_read_input_tokens: 2000 }, { output_tokens: 7 }, undefined],
  [{ input_tokens: 11, cache_read_input_tokens: "2000" }, { output_tokens: 7 }, undefined],
  [{ input_tokens: 11, cache_read_input_tokens: -5 }, { output_tokens: 7 }, undefined],
  [{ input_tokens: LARGE, cache_read_input_tokens: LARGE }, { output_tokens: 7 }, undefined],
];

test.each(COUNTS)(
  "Anthropic dialect: usage of a stream that reports %j and then %j",
  (start, end, usage) => {
    const frames = framesOf(
      { type: "message_start", message: { usage: start } },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hello." } },
      { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: end },
      { type: "message_stop" },
    );
    expect(decode(anthropicAdapter, frames).usage).toEqual(
      usage && { inputTokens: usage[0], outputTokens: usage[1] },
    );
  },
);

test("Anthropic dialect: usage of a complete reply includes cached input", () => {
  const usage = {
    input_tokens: 1,
    cache_read_input_tokens: 20,
    cache_creation_input_tokens: 300,
    output_tokens: 7,
  };
  const body = {
    type: "message",
    content: [{ type: "text", text: "Hello." }],
    stop_reason: "end_turn",
    usage,
  };
  expect(decodeDocument(anthropicAdapter, body).usage).toEqual({
    inputTokens: 321,
    outputTokens: 7,
  });
});

test("Google dialect: a last event without output counts does not erase the count before", () => {
  const event = (finishReason: string | null, usageMetadata: Counts) => ({
    candidates: [{ content: { parts: [{ text: "Hi" }] }, finishReason }],
    usageMetadata,
  });
  const first = event(null, {
    promptTokenCount: 5,
    candidatesTokenCount: 7,
    thoughtsTokenCount: 2,
  });
  const frames = framesOf(first, event("STOP", { promptTokenCount: 6, totalTokenCount: 15 }));
  expect(decode(googleAdapter, frames).usage).toEqual({ inputTokens: 6, outputTokens: 9 });
});

const chunk = (index: number, content: string, finish_reason: string | null) => ({
  choices: [{ index, delta: { content }, finish_reason }],
});

test("OpenAI dialect: ignores the chunks of all choices but the first", () => {
  const frames = framesOf(chunk(0, "Hel", null), chunk(1, "Good", "stop"), chunk(0, "lo.", "stop"));
  expect(decode(openaiAdapter, frames)).toEqual({
    text: "Hello.",
    usage: undefined,
    error: undefined,
  });
});

test.each([
  ["an event", 'data: {"choices":[{"index":0,"delta":{"content":"cut'],
  [
    "a character",
    Buffer.from('data: {"choices":[{"index":0,"delta":{"content":"ü').subarray(0, -1),
  ],
])("OpenAI dialect: a stream that ends inside %s is reported as broken off", (_where, last) => {
  const outcome = { text: "Hello", usage: undefined, error: "broke off" };
  expect(decode(openaiAdapter, framesOf(chunk(0, "Hello", null)), last)).toEqual(outcome);
});
