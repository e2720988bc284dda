import { describe, expect, test } from "vitest";
import { billedTokens } from "../../../scripts/simulators/dialect-encoder.ts";
import { encode } from "../../../scripts/simulators/script.ts";
import type { Adapter } from "../../../services/ai/providers/adapter.ts";
import { anthropicAdapter } from "../../../services/ai/providers/anthropic.ts";
import { ReplyDecoder } from "../../../services/ai/providers/decode.ts";
import { googleAdapter } from "../../../services/ai/providers/google.ts";
import { compatibleAdapter, openaiAdapter } from "../../../services/ai/providers/openai.ts";
import type { UsageDetails } from "../../../services/ai/providers/provider.ts";
import { CODECS, framesOf, REQUEST } from "./support.ts";

type Reported = Record<string, unknown>;
type Counts = { inputTokens: number; outputTokens: number } & Partial<UsageDetails>;

const NO_DETAILS: UsageDetails = {
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  cacheWrite1hTokens: 0,
  reasoningTokens: 0,
};

/** A reply of each dialect with a usage, whole and as a stream. */
const REPLIES: Record<
  string,
  { adapter: Adapter; whole(usage: Reported): object; stream(usage: Reported): object[] }
> = {
  openai: openai(openaiAdapter),
  "openai-compatible": openai(compatibleAdapter),
  anthropic: {
    adapter: anthropicAdapter,
    whole: (usage) => ({
      type: "message",
      content: [{ type: "text", text: "Hello." }],
      stop_reason: "end_turn",
      usage,
    }),
    stream: ({ output_tokens, output_tokens_details, ...input }) => [
      { type: "message_start", message: { usage: { ...input, output_tokens: 1 } } },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hello." } },
      {
        type: "message_delta",
        delta: { stop_reason: "end_turn" },
        usage: { output_tokens, output_tokens_details },
      },
      { type: "message_stop" },
    ],
  },
  google: {
    adapter: googleAdapter,
    whole: googleReply,
    stream: (usage) => [googleReply(usage)],
  },
};

function openai(adapter: Adapter) {
  return {
    adapter,
    whole: (usage: Reported) => ({
      choices: [{ message: { content: "Hello." }, finish_reason: "stop" }],
      usage,
    }),
    stream: (usage: Reported) => [
      { choices: [{ index: 0, delta: { content: "Hello." }, finish_reason: "stop" }] },
      { choices: [], usage },
    ],
  };
}

function googleReply(usageMetadata: Reported) {
  return {
    candidates: [{ content: { parts: [{ text: "Hello." }] }, finishReason: "STOP" }],
    usageMetadata,
  };
}

/** What each dialect reports, and what it means. */
const TABLE: [dialect: string, what: string, usage: Reported, counts: Counts][] = [
  [
    "openai",
    "cached and written input within the prompt, reasoning within the completion",
    {
      ...{ prompt_tokens: 100, completion_tokens: 30, total_tokens: 130 },
      prompt_tokens_details: { cached_tokens: 60, cache_write_tokens: 15 },
      completion_tokens_details: { reasoning_tokens: 20 },
    },
    {
      ...{ inputTokens: 100, outputTokens: 30, cachedInputTokens: 60 },
      ...{ cacheWriteTokens: 15, reasoningTokens: 20 },
    },
  ],
  [
    "openai",
    "no details",
    { prompt_tokens: 100, completion_tokens: 30, total_tokens: 130 },
    { inputTokens: 100, outputTokens: 30 },
  ],
  [
    "openai",
    "details of null",
    {
      ...{ prompt_tokens: 100, completion_tokens: 30, total_tokens: 130 },
      ...{ prompt_tokens_details: null, completion_tokens_details: null },
    },
    { inputTokens: 100, outputTokens: 30 },
  ],
  [
    "openai",
    "more cached input than input, which is not believed",
    {
      ...{ prompt_tokens: 100, completion_tokens: 30, total_tokens: 130 },
      prompt_tokens_details: { cached_tokens: 101 },
    },
    { inputTokens: 100, outputTokens: 30 },
  ],
  [
    "openai-compatible",
    "cached input by DeepSeek's name",
    {
      ...{ prompt_tokens: 100, completion_tokens: 30, total_tokens: 130 },
      ...{ prompt_cache_hit_tokens: 64, prompt_cache_miss_tokens: 36 },
    },
    { inputTokens: 100, outputTokens: 30, cachedInputTokens: 64 },
  ],
  [
    "openai-compatible",
    "input from Anthropic's cache beside the prompt and the total",
    {
      ...{ prompt_tokens: 25, completion_tokens: 7, total_tokens: 32 },
      cache_read_input_tokens: 75,
    },
    { inputTokens: 100, outputTokens: 7, cachedInputTokens: 75 },
  ],
  [
    "openai-compatible",
    "reasoning beside the completion",
    {
      ...{ prompt_tokens: 100, completion_tokens: 10, total_tokens: 160 },
      completion_tokens_details: { reasoning_tokens: 50 },
    },
    { inputTokens: 100, outputTokens: 60, reasoningTokens: 50 },
  ],
  [
    "anthropic",
    "cached and written input beside the rest, for five minutes and for an hour",
    {
      ...{ input_tokens: 25, output_tokens: 30, cache_read_input_tokens: 60 },
      cache_creation_input_tokens: 15,
      cache_creation: { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 5 },
      output_tokens_details: { thinking_tokens: 20 },
    },
    {
      ...{ inputTokens: 100, outputTokens: 30, cachedInputTokens: 60, cacheWriteTokens: 15 },
      ...{ cacheWrite1hTokens: 5, reasoningTokens: 20 },
    },
  ],
  [
    "anthropic",
    "no details",
    { input_tokens: 100, output_tokens: 30, cache_creation: null },
    { inputTokens: 100, outputTokens: 30 },
  ],
  [
    "google",
    "cached input within the prompt, tool results and thoughts beside the others",
    {
      ...{ promptTokenCount: 90, toolUsePromptTokenCount: 10, cachedContentTokenCount: 60 },
      ...{ candidatesTokenCount: 10, thoughtsTokenCount: 20, totalTokenCount: 130 },
    },
    { inputTokens: 100, outputTokens: 30, cachedInputTokens: 60, reasoningTokens: 20 },
  ],
  [
    "google",
    "hidden thoughts in the total alone",
    { promptTokenCount: 100, candidatesTokenCount: 10, totalTokenCount: 160 },
    { inputTokens: 100, outputTokens: 60 },
  ],
  [
    "google",
    "a total that is too small",
    {
      ...{ promptTokenCount: 100, candidatesTokenCount: 10 },
      ...{ thoughtsTokenCount: 20, totalTokenCount: 110 },
    },
    { inputTokens: 100, outputTokens: 30, reasoningTokens: 20 },
  ],
  [
    "google",
    "thoughts alone",
    { promptTokenCount: 100, thoughtsTokenCount: 20, totalTokenCount: 120 },
    { inputTokens: 100, outputTokens: 20, reasoningTokens: 20 },
  ],
];

function countsIn(decoder: ReplyDecoder) {
  const { usage } = decoder;
  return usage && { ...usage, ...decoder.detailsOf(usage) };
}

describe("Counts for prices", () => {
  test.each(TABLE)("%s dialect: %s", (dialect, _, reported, counts) => {
    const reply = REPLIES[dialect];
    if (!reply) throw new Error(`There is no dialect ${dialect}.`);
    const [streamed, whole] = [true, false].map(
      (isStream) => new ReplyDecoder(reply.adapter, isStream),
    );
    streamed?.push(Buffer.from(framesOf(...reply.stream(reported))));
    whole?.push(Buffer.from(JSON.stringify(reply.whole(reported))));
    for (const decoder of [streamed, whole]) {
      decoder?.end();
      expect(decoder && countsIn(decoder)).toEqual({ ...NO_DETAILS, ...counts });
    }
  });

  test.each(CODECS)(
    "%s dialect: the simulator reports the given counts",
    (dialect, encoderOf, adapter) => {
      const written = dialect === "openai" || dialect === "anthropic" ? 300 : 0;
      const forHour = dialect === "anthropic" ? 100 : 0;
      const tokens = billedTokens(`5000,700,4000,${written},${forHour},600`) ?? {
        input: 0,
        output: 0,
      };
      const { events, lineEnd, whole } = encoderOf("key");
      const expected = {
        ...{ inputTokens: 5_000, outputTokens: 700, cachedInputTokens: 4_000 },
        ...{ cacheWriteTokens: written, cacheWrite1hTokens: forHour, reasoningTokens: 600 },
      };
      const streamed = new ReplyDecoder(adapter, true);
      for (const event of events(["Hello", "."], tokens, REQUEST))
        streamed.push(Buffer.from(encode(event, lineEnd)));
      streamed.end();
      expect(countsIn(streamed)).toEqual(expected);
      const document = new ReplyDecoder(adapter, false);
      document.push(Buffer.from(JSON.stringify(whole("Hello.", tokens, REQUEST))));
      document.end();
      expect(countsIn(document)).toEqual(expected);
    },
  );
});

describe("Counts of an interrupted stream", () => {
  const INPUT = { inputTokens: 5_000, cachedInputTokens: 4_000 };
  test.each([
    ["openai", {}],
    ["openai-compatible", {}],
    ["anthropic", { ...INPUT, cacheWriteTokens: 300, cacheWrite1hTokens: 100 }],
    ["google", { ...INPUT, outputTokens: 601, reasoningTokens: 600 }],
  ])("%s dialect: are those that were reported before the interruption", (dialect, known) => {
    const [, encoderOf, adapter] = CODECS.find(([name]) => name === dialect) ?? CODECS[0];
    const written = dialect === "anthropic" ? "300,100" : "0,0";
    const tokens = billedTokens(`5000,700,4000,${written},600`) ?? { input: 0, output: 0 };
    const { events, lineEnd } = encoderOf("key");
    const all = events(["Hello", "."], tokens, REQUEST);
    const decoder = new ReplyDecoder(adapter, true);
    for (const event of all) {
      decoder.push(Buffer.from(encode(event, lineEnd)));
      if (event.data.includes("Hello")) break;
    }
    expect(decoder.reported).toEqual({ ...NO_DETAILS, ...known });
  });
});
