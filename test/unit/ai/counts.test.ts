import { describe, expect, test } from "vitest";
import type { Adapter } from "../../../services/ai/providers/adapter.ts";
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

test("Google dialect: a last event without output counts does not erase earlier counts", () => {
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

test.each([
  ["numbers", Number],
  ["text", String],
])("OpenAI dialect: only chunks of the first choice are read, with its index in %s", (_, as) => {
  const chunkOf = (index: number, content: string, finish_reason: string | null) => ({
    choices: [{ index: as(index), delta: { content }, finish_reason }],
  });
  const frames = framesOf(
    chunkOf(0, "Hel", null),
    chunkOf(1, "Good", "stop"),
    chunkOf(0, "lo.", "stop"),
  );
  expect(decode(openaiAdapter, frames)).toEqual({
    text: "Hello.",
    usage: undefined,
    error: undefined,
  });
});

// Nothing tells it from the second of several. Of a whole reply, OpenAI's SDK reads the choice in
// the first place of the list; of a stream, that with the first index.
test("OpenAI dialect: a choice with another index than 0 is none, even if it is the only one", () => {
  const failed = { text: "", error: "broke off" };
  expect(decode(openaiAdapter, framesOf(chunk(1, "Good", "stop")))).toMatchObject(failed);
  const whole = { choices: [{ index: 1, message: { content: "Good" }, finish_reason: "stop" }] };
  expect(decodeDocument(openaiAdapter, whole)).toMatchObject(failed);
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

/** OpenAI's counts, in the variants of other servers, and what they mean. */
const OPENAI_COUNTS: {
  what: string;
  usage: Counts;
  tokens: [input: number, output: number] | undefined;
}[] = [
  {
    what: "cached input within the prompt",
    usage: { ...counts(100, 10, 110), prompt_tokens_details: { cached_tokens: 80 } },
    tokens: [100, 10],
  },
  {
    what: "cached input beside the prompt, in details",
    usage: { ...counts(25, 7, 1032), prompt_tokens_details: { cached_tokens: 1000 } },
    tokens: [1025, 7],
  },
  {
    what: "cached input beside the prompt, on top",
    usage: { ...counts(25, 7, 1032), cached_tokens: 1000 },
    tokens: [1025, 7],
  },
  {
    what: "input read from and written to a cache, beside the prompt",
    usage: {
      ...counts(25, 7, 1532),
      cache_read_input_tokens: 1000,
      cache_creation_input_tokens: 500,
    },
    tokens: [1525, 7],
  },
  {
    what: "the same cached input under two names",
    usage: {
      ...counts(25, 7, 1032),
      cache_read_input_tokens: 1000,
      prompt_tokens_details: { cached_tokens: 1000 },
    },
    tokens: [1025, 7],
  },
  {
    what: "cached input and hidden reasoning",
    usage: { ...counts(25, 7, 1082), cached_tokens: 1000 },
    tokens: [1025, 57],
  },
  {
    what: "reasoning in the total alone, and cached input within the prompt",
    usage: {
      ...counts(100, 10, 160),
      prompt_tokens_details: { cached_tokens: 80 },
      completion_tokens_details: { reasoning_tokens: 50 },
    },
    tokens: [100, 60],
  },
  {
    what: "reasoning within the completion, and cached input beside the prompt",
    usage: {
      ...counts(25, 200, 1225),
      cached_tokens: 1000,
      completion_tokens_details: { reasoning_tokens: 100 },
    },
    tokens: [1025, 200],
  },
  {
    what: "input from Anthropic's cache, which is not in the total either",
    usage: { ...counts(368, 19, 387), cache_read_input_tokens: 10_536 },
    tokens: [10_904, 19],
  },
  {
    what: "input from Anthropic's cache and hidden reasoning",
    usage: { ...counts(25, 7, 1082), cache_read_input_tokens: 1000 },
    tokens: [1025, 57],
  },
  {
    what: "input from and into Anthropic's cache alone, without a total",
    usage: {
      ...{ prompt_tokens: 0, completion_tokens: 7 },
      ...{ cache_read_input_tokens: 1000, cache_creation_input_tokens: 500 },
    },
    tokens: [1500, 7],
  },
  {
    what: "more reasoning than completion, without a total",
    usage: {
      ...{ prompt_tokens: 25, completion_tokens: 5 },
      completion_tokens_details: { reasoning_tokens: 50 },
    },
    tokens: [25, 55],
  },
  {
    what: "more reasoning than completion, which the total excludes",
    usage: { ...counts(25, 5, 30), completion_tokens_details: { reasoning_tokens: 50 } },
    tokens: [25, 5],
  },
  { what: "a total that is too small", usage: counts(100, 10, 5), tokens: [100, 10] },
  {
    what: "less than no output, in spite of the total",
    usage: counts(9, -2, 11),
    tokens: undefined,
  },
  { what: "no output beside text", usage: counts(100, 0, 100), tokens: undefined },
  { what: "no input", usage: counts(0, 10, 10), tokens: undefined },
  { what: "zeros", usage: counts(0, 0, 0), tokens: undefined },
];

function counts(prompt_tokens: number, completion_tokens: number, total_tokens: number): Counts {
  return { prompt_tokens, completion_tokens, total_tokens };
}

const tokensOf = (tokens: [input: number, output: number] | undefined) =>
  tokens && { inputTokens: tokens[0], outputTokens: tokens[1] };

describe("OpenAI dialect: usage", () => {
  test.each(OPENAI_COUNTS)("with $what", ({ usage, tokens }) => {
    const frames = framesOf(chunk(0, "Hello.", "stop"), { choices: [], usage });
    expect(decode(openaiAdapter, frames).usage).toEqual(tokensOf(tokens));
    const whole = { choices: [{ message: { content: "Hello." }, finish_reason: "stop" }], usage };
    expect(decodeDocument(openaiAdapter, whole).usage).toEqual(tokensOf(tokens));
  });

  test.each([
    ["a choice", { choices: [{ index: 0, delta: {}, usage: counts(9, 2, 11) }] }],
    ["a message", { choices: [{ index: 0, delta: { usage: counts(9, 2, 11) } }] }],
    ["the field of Groq", { choices: [], x_groq: { usage: counts(9, 2, 11) } }],
    [
      "a choice, despite zeros of a proxy",
      { choices: [{ index: 0, delta: {}, usage: counts(9, 2, 11) }], usage: counts(0, 0, 0) },
    ],
    [
      "the field of Groq, despite an empty object",
      { choices: [], usage: {}, x_groq: { usage: counts(9, 2, 11) } },
    ],
  ])("is read from %s", (_, document) => {
    const frames = framesOf(chunk(0, "Hello.", "stop"), document);
    expect(decode(openaiAdapter, frames).usage).toEqual({ inputTokens: 9, outputTokens: 2 });
  });

  test.each([
    ["zeros", counts(0, 0, 0)],
    ["smaller counts", counts(3, 1, 4)],
    ["null", null],
  ])("is kept if a later event reports %s", (_, usage) => {
    const first = { choices: [], usage: counts(9, 2, 11) };
    const frames = framesOf(chunk(0, "Hello.", "stop"), first, { choices: [], usage });
    expect(decode(openaiAdapter, frames).usage).toEqual({ inputTokens: 9, outputTokens: 2 });
  });
});

/** Streams whose counts are not those of the whole reply. */
const PARTIAL: { what: string; adapter: Adapter; frames: string }[] = [
  {
    what: "the counts of an OpenAI stream that is interrupted",
    adapter: openaiAdapter,
    frames: framesOf({ ...chunk(0, "Hel", null), usage: counts(9, 1, 10) }),
  },
  {
    what: "the counts of a first event of OpenAI's dialect, with text after them",
    adapter: openaiAdapter,
    frames: framesOf(
      { ...chunk(0, "Hel", null), usage: counts(9, 1, 10) },
      chunk(0, "lo, and much more.", "stop"),
    ),
  },
  {
    what: "the counts of a Gemini stream that is interrupted",
    adapter: googleAdapter,
    frames: framesOf({
      candidates: [{ content: { parts: [{ text: "Hel" }] } }],
      usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 1 },
    }),
  },
  {
    what: "the counts of a first event of Gemini, with text after them",
    adapter: googleAdapter,
    frames: framesOf(
      {
        candidates: [{ content: { parts: [{ text: "Hel" }] } }],
        usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 1 },
      },
      { candidates: [{ content: { parts: [{ text: "lo." }] }, finishReason: "STOP" }] },
    ),
  },
  {
    what: "the counts of a message_delta of Anthropic, with text after it",
    adapter: anthropicAdapter,
    frames: framesOf(
      { type: "message_start", message: { usage: { input_tokens: 11 } } },
      { type: "message_delta", delta: { stop_reason: null }, usage: { output_tokens: 1 } },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hello." } },
      { type: "message_delta", delta: { stop_reason: "end_turn" } },
      { type: "message_stop" },
    ),
  },
];

test.each(PARTIAL)("Usage is not taken from $what", ({ adapter, frames }) => {
  expect(decode(adapter, frames).usage).toBeUndefined();
});

test("Google dialect: usage contains the maximum of each count in all events", () => {
  const event = (finishReason: string | null, usageMetadata: Counts) => ({
    candidates: [{ content: { parts: [{ text: "Hi" }] }, finishReason }],
    usageMetadata,
  });
  const frames = framesOf(
    event(null, { promptTokenCount: 10, thoughtsTokenCount: 3 }),
    event(null, { promptTokenCount: 10, candidatesTokenCount: 5 }),
    event("STOP", { promptTokenCount: 0, candidatesTokenCount: 0, thoughtsTokenCount: 0 }),
  );
  expect(decode(googleAdapter, frames).usage).toEqual({ inputTokens: 10, outputTokens: 8 });
});

test("Google dialect: hidden reasoning is read from the total of any event", () => {
  const event = (finishReason: string | null, usageMetadata: Counts) => ({
    candidates: [{ content: { parts: [{ text: "Hi" }] }, finishReason }],
    usageMetadata,
  });
  const thinking = event(null, { promptTokenCount: 10, totalTokenCount: 60 });
  const known = { promptTokenCount: 10, candidatesTokenCount: 7, totalTokenCount: 67 };
  for (const last of [known, { ...known, thoughtsTokenCount: 50 }]) {
    const frames = framesOf(thinking, event("STOP", last));
    expect(decode(googleAdapter, frames).usage).toEqual({ inputTokens: 10, outputTokens: 57 });
  }
});

test.each([
  ["numbers", Number],
  ["text", String],
])("Google dialect: only events of the first candidate are read, with its index in %s", (_, as) => {
  const event = (index: number, text: string, finishReason?: string) => ({
    candidates: [{ index: as(index), content: { parts: [{ text }] }, finishReason }],
  });
  const frames = framesOf(
    event(0, "Hel"),
    event(1, "Good", "STOP"),
    { candidates: [...event(1, "bye").candidates, ...event(0, "lo.", "STOP").candidates] },
    event(1, "!", "SAFETY"),
  );
  expect(decode(googleAdapter, frames)).toMatchObject({ text: "Hello.", error: undefined });
  const others = framesOf(event(1, "Good", "STOP"));
  expect(decode(googleAdapter, others)).toMatchObject({ text: "", error: "broke off" });
});

/** Content of other shapes, and its text; undefined means a failure. */
const CONTENTS: { what: string; adapter: Adapter; whole: object; text?: string }[] = [
  ...(
    [
      ["a string", "Hi there", "Hi there"],
      [
        "parts",
        [
          { type: "text", text: "Hi " },
          { type: "text", text: "there" },
        ],
        "Hi there",
      ],
      ["parts of another type", [{ type: "output_text", text: "Hi there" }], "Hi there"],
      ["parts without a type", [{ text: "Hi " }, { text: "there" }], "Hi there"],
      ["strings", ["Hi ", "there"], "Hi there"],
      ["one part", { type: "text", text: "Hi there" }, "Hi there"],
      ["text and an image", [{ type: "image_url", image_url: {} }, "Hi there"], "Hi there"],
      ["an image", [{ type: "image_url", image_url: { url: "data:" } }]],
      ["an object", { parts: ["Hi there"] }],
      ["a part whose text is an object", [{ type: "text", text: { value: "Hi there" } }]],
      ["a text without a text", [{ text: "Hi " }, { type: "text", content: "there" }]],
      ["an output without a text", ["Hi ", { type: "output_text", value: "there" }]],
      ["a number in a list", [7]],
      ["a list in a list", [["Hi there"]]],
      ["a number", 7],
    ] as const
  ).map(([what, content, text]) => ({
    what: `OpenAI dialect, ${what}`,
    adapter: openaiAdapter,
    whole: { choices: [{ message: { content }, finish_reason: "stop" }] },
    ...(text && { text }),
  })),
  ...(
    [
      ["a refusal among parts", { message: { content: ["Hi ", { refusal: "there" }] } }],
      ["a message that is text", { message: "Hi there" }],
      ["an empty piece beside the message", { delta: {}, message: { content: "Hi there" } }],
      ["a piece with a role alone", { delta: { role: "assistant" }, message: "Hi there" }],
      ["null as a piece", { delta: null, message: { content: "Hi there" } }],
      ["a piece that is text", { delta: "Hi there" }],
      ["a piece that is a list", { delta: ["Hi ", "there"] }],
      ["a message that is a list", { message: [{ text: "Hi there" }] }],
      ["the text of a completion", { text: "Hi there" }],
      ["the content of a choice", { content: "Hi there" }],
      ["a text beside an empty piece", { delta: { role: "assistant" }, text: "Hi there" }],
      ["a text beside an empty message", { message: { content: null }, text: "Hi there" }],
      ["a refusal that is false", { message: { content: "Hi there", refusal: false } }],
      ["a refusal that is empty", { message: { content: "Hi there", refusal: {} } }],
      ["a content beside an empty piece", { delta: { content: "" }, content: "Hi there" }],
    ] as const
  ).map(([what, choice]) => ({
    what: `OpenAI dialect, ${what}`,
    adapter: openaiAdapter,
    whole: { choices: [{ index: 0, ...choice, finish_reason: "stop" }] },
    text: "Hi there",
  })),
  ...[
    { message: { content: null, audio: { transcript: "Hi there" } } },
    { message: { content: "", images: [{ image_url: { url: "data:" } }] } },
    { message: { content: null, function_call: { name: "f", arguments: "{}" } } },
    { message: 7 },
    { delta: 7 },
    { message: { content: false } },
    { delta: { content: 0 } },
    { message: { content: "Hi", refusal: true } },
  ].map((choice) => ({
    what: `OpenAI dialect, ${JSON.stringify(choice)}`,
    adapter: openaiAdapter,
    whole: { choices: [{ ...choice, finish_reason: "stop" }] },
  })),
  ...(
    [
      ["text", [{ type: "text", text: "Hi there" }], "Hi there"],
      [
        "text and reasoning",
        [
          { type: "thinking", thinking: "Hm." },
          { type: "text", text: "Hi there" },
        ],
        "Hi there",
      ],
      ["another type", [{ type: "output_text", text: "Hi there" }]],
      ["no type", [{ text: "Hi there" }]],
      ["a text without a text", [{ type: "text", content: "Hi there" }]],
      ["strings", ["Hi there"]],
      ["a string", "Hi there"],
      ["null", null],
    ] as const
  ).map(([what, content, text]) => ({
    what: `Anthropic dialect, ${what}`,
    adapter: anthropicAdapter,
    whole: { type: "message", content, stop_reason: "end_turn" },
    ...(text && { text }),
  })),
  ...(
    [
      ["text", { parts: [{ text: "Hi " }, { text: "there" }] }, "Hi there"],
      [
        "text and a signature",
        { parts: [{ text: "Hi there" }, { thoughtSignature: "x" }] },
        "Hi there",
      ],
      ["a list of parts", [{ text: "Hi " }, { text: "there" }], "Hi there"],
      ["one part", { text: "Hi there" }, "Hi there"],
      ["one part as parts", { parts: { text: "Hi there" } }],
      ["an image", { parts: [{ inlineData: { mimeType: "image/png", data: "" } }] }],
      ["a string", "Hi there"],
    ] as const
  ).map(([what, content, text]) => ({
    what: `Google dialect, ${what}`,
    adapter: googleAdapter,
    whole: { candidates: [{ content, finishReason: "STOP" }] },
    ...(text && { text }),
  })),
];

test.each(CONTENTS)(
  "Content is text or a failure, and never empty: $what",
  ({ adapter, whole, text }) => {
    const expected = text ? { text, error: undefined } : { text: "", error: "unreadable reply" };
    expect(decodeDocument(adapter, whole)).toMatchObject(expected);
  },
);
