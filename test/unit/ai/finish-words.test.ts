import { FinishReason } from "@google/genai";
import { describe, expect, test } from "vitest";
import type { Adapter } from "../../../services/ai/providers/adapter.ts";
import { anthropicAdapter } from "../../../services/ai/providers/anthropic.ts";
import { ReplyDecoder } from "../../../services/ai/providers/decode.ts";
import { googleAdapter } from "../../../services/ai/providers/google.ts";
import { openaiAdapter } from "../../../services/ai/providers/openai.ts";
import { framesOf } from "./support.ts";

type Dialect = {
  dialect: string;
  adapter: Adapter;
  /** The frames of a stream with one piece of text and a finish reason, and what closes it. */
  frames(reason: unknown): string;
  /** The complete reply. */
  whole(reason: unknown): object;
  good: unknown[];
  limits: unknown[];
  filters: unknown[];
};

/** No word of any dialect for a good end. */
const FAILURES: unknown[] = [
  ...["abort", "aborted", "error", "ERROR", "network_error", "insufficient_system_resource"],
  ...["repetition", "cancelled", "USER_CANCEL", "OTHER", "timeout", "load", "unknown", "stop!"],
  ...[{ type: "stop" }, ["stop"], true, 7],
];
/** Absent reasons: the reply has not ended. */
const ABSENT = [
  ...[null, undefined, "", " ", "null", "None", 0, "FINISH_REASON_UNSPECIFIED"],
  "not_finished",
];
/** Words of OpenAI, with which translators answer in other dialects. */
const COMMON = {
  good: ["stop", "STOP", "FinishReason.STOP", "FINISH_REASON_STOP"],
  limits: [
    "length",
    "LENGTH",
    "MAX_TOKENS",
    "max-tokens",
    "max_output_tokens",
    "finish_reason_length",
  ],
  filters: ["content_filter", "content-filter", "CONTENT_FILTER"],
};

const DIALECTS: Dialect[] = [
  {
    dialect: "openai",
    adapter: openaiAdapter,
    frames: (finish_reason) =>
      framesOf(
        { choices: [{ index: 0, delta: { content: "Half of" } }] },
        { choices: [{ index: 0, delta: {}, finish_reason }] },
      ),
    whole: (finish_reason) => ({
      choices: [{ index: 0, message: { content: "Half of" }, finish_reason }],
    }),
    good: [
      ...["Stop", "eos", "eos_token", "COMPLETE", "end_turn", "endTurn"],
      ...["FINISH", "endoftext", "normal"],
    ],
    limits: [
      ...["maxTokens", "model_length", "max_completion_tokens", "model_context_window_exceeded"],
      ...["max_output", "TOKEN_LIMIT"],
    ],
    filters: ["SAFETY", "sensitive"],
  },
  {
    dialect: "anthropic",
    adapter: anthropicAdapter,
    frames: (stop_reason) =>
      framesOf(
        { type: "content_block_delta", delta: { type: "text_delta", text: "Half of" } },
        { type: "message_delta", delta: { stop_reason } },
      ),
    whole: (stop_reason) => ({
      type: "message",
      content: [{ type: "text", text: "Half of" }],
      stop_reason,
    }),
    good: ["end_turn", "END_TURN", "end-turn", "stop_sequence"],
    limits: ["model_context_window_exceeded"],
    filters: ["refusal", "Refusal"],
  },
  {
    dialect: "google",
    adapter: googleAdapter,
    frames: (finishReason) =>
      framesOf(
        { candidates: [{ content: { parts: [{ text: "Half of" }] } }] },
        { candidates: [{ finishReason }] },
      ),
    whole: (finishReason) => ({
      candidates: [{ content: { parts: [{ text: "Half of" }] }, finishReason }],
    }),
    good: ["STOP", 1],
    limits: ["MAX_TOKENS", "CONTINUATION", 2],
    filters: [
      ...["SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"],
      ...["MODEL_ARMOR", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"],
      ...["ESCALATION", "image-recitation", 3, 4],
    ],
  },
];

/** Decodes a body to its end. */
function endOf(adapter: Adapter, body: string) {
  const decoder = new ReplyDecoder(adapter);
  const text = decoder.push(Buffer.from(body)) + decoder.end();
  const { error, finishReason } = decoder;
  return { text, end: error ? error.kind : finishReason };
}

describe.each(DIALECTS)("Finish reasons of $dialect", ({ adapter, frames, whole, ...words }) => {
  const endsOf = (reason: unknown) => [
    endOf(adapter, frames(reason)),
    endOf(adapter, JSON.stringify(whole(reason))),
  ];
  const both = (end: string) => Array(2).fill({ text: "Half of", end });

  test.each([...COMMON.good, ...words.good])("%j ends a reply", (reason) => {
    expect(endsOf(reason)).toEqual(both("stop"));
  });

  test.each([...COMMON.limits, ...words.limits])(
    "%j means the maximum number of tokens",
    (reason) => {
      expect(endsOf(reason)).toEqual(both("length"));
    },
  );

  test.each([...COMMON.filters, ...words.filters])("%j means a filter", (reason) => {
    expect(endsOf(reason)).toEqual(both("blocked the content"));
  });

  test.each(FAILURES)("%j means a failure", (reason) => {
    for (const { end } of endsOf(reason)) expect(end).toMatch(/^(broke off|timed out)$/);
  });

  test.each(ABSENT)("%j is not a reason: a stream that ends with it was interrupted", (reason) => {
    expect(endOf(adapter, frames(reason))).toEqual({ text: "Half of", end: "broke off" });
  });
});

/** Finish reasons of Gemini that are failures. */
const GOOGLE_FAILURES = [
  ...["OTHER", "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE"],
  ...["UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "NO_IMAGE", "IMAGE_OTHER"],
  "PUP_LIMITED_DISABLED",
];

test("Finish reasons of google: all of its SDK are known", () => {
  const { good, limits, filters } = DIALECTS[2] as Dialect;
  const known = [...good, ...limits, ...filters, ...GOOGLE_FAILURES, ...ABSENT];
  expect(known).toEqual(expect.arrayContaining(Object.values(FinishReason)));
  for (const finishReason of GOOGLE_FAILURES) {
    const candidates = [{ content: { parts: [{ text: "Half of" }] }, finishReason }];
    expect(endOf(googleAdapter, JSON.stringify({ candidates })).end).toBe("broke off");
  }
});

test("Finish reasons of openai: that of protobuf is read by its name in JSON", () => {
  const endFor = (finishReason: string) => {
    const choices = [{ message: { content: "Half of" }, finishReason }];
    return endOf(openaiAdapter, JSON.stringify({ choices })).end;
  };
  expect(["STOP", "MAX_TOKENS", "SAFETY", "abort"].map(endFor)).toEqual([
    ...["stop", "length", "blocked the content", "broke off"],
  ]);
});

test.each(["tool_calls", "TOOL_CALLS", "tool-call", "tool_use", "ToolUse", "function_call"])(
  "Finish reason %j: a reply without text and call is unreadable",
  (reason) => {
    const empty = { choices: [{ message: { content: null }, finish_reason: reason }] };
    expect(endOf(openaiAdapter, JSON.stringify(empty)).end).toBe("unreadable reply");
  },
);

test("Finish reasons of google: a blocked prompt is blocked whatever the reason, unless that is unspecified", () => {
  const blocked = (blockReason: string) =>
    endOf(googleAdapter, JSON.stringify({ promptFeedback: { blockReason } })).end;
  for (const reason of ["SAFETY", "OTHER", "JAILBREAK", "MODEL_ARMOR", "A_LATER_REASON"])
    expect(blocked(reason)).toBe("blocked the content");
  const feedback = { promptFeedback: { blockReason: "BLOCKED_REASON_UNSPECIFIED" } };
  const good = { candidates: [{ content: { parts: [{ text: "Hi" }] }, finishReason: "STOP" }] };
  expect(endOf(googleAdapter, JSON.stringify({ ...good, ...feedback }))).toEqual({
    text: "Hi",
    end: "stop",
  });
});

test("Finish reasons of openai: usage after a failure is still read", () => {
  const decoder = new ReplyDecoder(openaiAdapter);
  const usage = { prompt_tokens: 9, completion_tokens: 2 };
  decoder.push(Buffer.from(DIALECTS[0]?.frames("network_error") ?? ""));
  expect(decoder.isClosed).toBe(false);
  decoder.push(Buffer.from(`${framesOf({ choices: [], usage })}data: [DONE]\n\n`));
  expect(decoder.usage).toEqual({ inputTokens: 9, outputTokens: 2 });
  expect(decoder.error?.kind).toBe("broke off");
});
