import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { openAiFormat } from "../../../../gateway/formats/openai.ts";
import { ServiceError } from "../../../../services/platform/rpc/errors.ts";

type Params = OpenAI.ChatCompletionCreateParamsStreaming;
type Json = Record<string, unknown>;

/** A text that is found again wherever it goes. */
const MARK = "marked-value";
const USER = { role: "user", content: "Hello!" };
const BASE = { model: "model-a-1", messages: [USER] };
const SCHEMA = { type: "object", properties: { [MARK]: { type: "string" } } };
const FUNCTION = { name: MARK, description: MARK, parameters: SCHEMA, strict: true };
const IMAGE = `data:image/png;base64,${MARK}`;

/** A value for every field of OpenAI's request type that asks for something. */
const SAMPLES: { [Field in keyof Required<Params>]: unknown } = {
  messages: [{ role: "user", content: MARK }],
  model: MARK,
  audio: { format: "mp3", voice: "alloy" },
  frequency_penalty: 0.5,
  function_call: "auto",
  functions: [{ name: MARK }],
  logit_bias: { 50256: -100 },
  logprobs: true,
  max_completion_tokens: 77,
  max_tokens: 78,
  metadata: { team: MARK },
  modalities: ["text", "audio"],
  moderation: { model: "omni-moderation-latest" },
  n: 2,
  parallel_tool_calls: false,
  prediction: { type: "content", content: MARK },
  presence_penalty: -0.5,
  prompt_cache_key: MARK,
  prompt_cache_options: { mode: "explicit" },
  prompt_cache_retention: "24h",
  reasoning_effort: "high",
  response_format: { type: "json_schema", json_schema: { name: MARK, schema: SCHEMA } },
  safety_identifier: MARK,
  seed: 4711,
  service_tier: "flex",
  stop: MARK,
  store: true,
  stream: true,
  stream_options: { include_usage: true },
  temperature: 0.3,
  tool_choice: "required",
  tools: [{ type: "function", function: FUNCTION }],
  top_logprobs: 3,
  top_p: 0.4,
  user: MARK,
  verbosity: "low",
  web_search_options: { search_context_size: "low" },
};

/** Fields of objects inside a request: where they are, and a value for each. */
const NESTED: Record<string, { wrap: (member: Json) => Json; samples: Record<string, unknown> }> = {
  ...Object.fromEntries(
    (["Developer", "System", "User", "Function"] as const).map((role) => [
      `ChatCompletion${role}MessageParam`,
      {
        wrap: (member: Json) => messageWith(role.toLowerCase(), member),
        samples: { role: role.toLowerCase(), content: MARK, name: MARK },
      },
    ]),
  ),
  ChatCompletionAssistantMessageParam: {
    wrap: (member) => messageWith("assistant", member),
    samples: {
      role: "assistant",
      content: MARK,
      name: MARK,
      audio: { id: MARK },
      function_call: { name: MARK, arguments: "{}" },
      refusal: MARK,
      tool_calls: [{ id: MARK, type: "function", function: { name: "f", arguments: "{}" } }],
    },
  },
  ChatCompletionToolMessageParam: {
    wrap: (member) => messageWith("tool", member),
    samples: { role: "tool", content: MARK, tool_call_id: MARK },
  },
  ChatCompletionContentPartText: {
    wrap: (member) => partWith({ type: "text", text: "a", ...member }),
    samples: { type: "text", text: MARK, prompt_cache_breakpoint: { mode: "explicit" } },
  },
  ChatCompletionContentPartImage: {
    wrap: (member) =>
      partWith({ type: "image_url", image_url: { url: "https://a.b/c" }, ...member }),
    samples: {
      type: "image_url",
      image_url: { url: IMAGE },
      prompt_cache_breakpoint: { mode: "explicit" },
    },
  },
  "ChatCompletionContentPartImage.ImageURL": {
    wrap: (member) =>
      partWith({ type: "image_url", image_url: { url: "https://a.b/c", ...member } }),
    samples: { url: IMAGE, detail: "high" },
  },
  ChatCompletionContentPartInputAudio: {
    wrap: (member) => partWith({ type: "input_audio", ...member }),
    samples: {
      type: "input_audio",
      input_audio: { data: MARK, format: "mp3" },
      prompt_cache_breakpoint: { mode: "explicit" },
    },
  },
  ChatCompletionContentPartRefusal: {
    wrap: (member) =>
      messageWith("assistant", { content: [{ type: "refusal", refusal: "No.", ...member }] }),
    samples: { type: "refusal", refusal: MARK },
  },
  ChatCompletionMessageFunctionToolCall: {
    wrap: (member) => callWith(member),
    samples: { id: MARK, type: "function", function: { name: MARK, arguments: "{}" } },
  },
  ChatCompletionMessageCustomToolCall: {
    wrap: (member) => callWith({ type: "custom", ...member }),
    samples: { id: MARK, type: "custom", custom: { name: MARK, input: MARK } },
  },
  ChatCompletionFunctionTool: {
    wrap: (member) => ({ tools: [{ type: "function", function: { name: "f" }, ...member }] }),
    samples: { type: "function", function: FUNCTION },
  },
  ChatCompletionCustomTool: {
    wrap: (member) => ({ tools: [{ type: "custom", ...member }] }),
    samples: { type: "custom", custom: { name: MARK } },
  },
  ChatCompletionNamedToolChoice: {
    wrap: (member) => ({ tool_choice: { type: "function", function: { name: "f" }, ...member } }),
    samples: { type: "function", function: { name: MARK } },
  },
  ChatCompletionNamedToolChoiceCustom: {
    wrap: (member) => ({ tool_choice: { type: "custom", ...member } }),
    samples: { type: "custom", custom: { name: MARK } },
  },
  ChatCompletionAllowedToolChoice: {
    wrap: (member) => ({ tool_choice: { type: "allowed_tools", ...member } }),
    samples: { type: "allowed_tools", allowed_tools: { mode: "auto", tools: [] } },
  },
  ChatCompletionStreamOptions: {
    wrap: (member) => ({ stream: true, stream_options: member }),
    samples: { include_usage: true, include_obfuscation: true },
  },
};

const messageWith = (role: string, member: Json): Json => ({
  messages: [USER, { role, content: "a", ...member }],
});
const partWith = (part: Json): Json => messageWith("user", { content: [part] });
const callWith = (member: Json): Json =>
  messageWith("assistant", {
    tool_calls: [
      { id: "1", type: "function", function: { name: "f", arguments: "{}" }, ...member },
    ],
  });

const declarations = readFileSync(
  createRequire(import.meta.url)
    .resolve("openai/resources/chat/completions/completions")
    .replace(/js$/, "d.ts"),
  "utf8",
);

/** The fields of an interface in the types of the openai package. */
function fieldsOf(name: string): string[] {
  const [outer = "", inner] = name.split(".");
  const start = inner
    ? declarations.indexOf(`interface ${inner} {`, declarations.indexOf(`namespace ${outer} {`))
    : declarations.search(new RegExp(`export interface ${outer}(?: extends \\w+)? \\{`));
  expect(start, name).toBeGreaterThan(0);
  const indent = inner ? "    " : "";
  const body = declarations.slice(start, declarations.indexOf(`\n${indent}}`, start));
  return [...body.matchAll(new RegExp(`^${indent} {4}(\\w+)\\??:`, "gm"))].map(
    ([, field]) => field as string,
  );
}

/** What becomes of a request: its message as text, and the fields that are refused. */
function outcomeOf(request: Json) {
  try {
    const { message, includeUsage } = openAiFormat.read(request);
    const text = JSON.stringify({ ...message, ignored: [], includeUsage }, (_name, value) =>
      typeof value === "bigint" ? Number(value) : value,
    );
    return { text, ignored: message.ignored, refused: [] };
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    return { text: "", ignored: [], refused: error.details.violations ?? [] };
  }
}

/** Whether a request tells what becomes of a field: it is refused by name, ignored by name, or carried. */
function fateOf(field: string, without: Json, request: Json): string {
  const [before, after] = [outcomeOf(without), outcomeOf(request)];
  const isNamed = (name: string) => name.split(/[.[\]]+/).includes(field);
  if (after.refused.length > 0)
    return after.refused.some((each) => isNamed(each.field) || isNamed(each.message))
      ? "refused"
      : `refused without its name: ${JSON.stringify(after.refused)}`;
  if (after.ignored.some(isNamed)) return "ignored";
  return after.text === before.text ? "lost" : "carried";
}

test("ChatCompletionCreateParams: there is a sample of every field of the openai package", () => {
  expect(Object.keys(SAMPLES).sort()).toEqual(fieldsOf("ChatCompletionCreateParamsBase").sort());
  for (const [name, { samples }] of Object.entries(NESTED))
    expect(Object.keys(samples).sort(), name).toEqual(fieldsOf(name).sort());
});

describe("ChatCompletionCreateParams: every field is carried, refused by name or ignored by name", () => {
  test.each(Object.entries(SAMPLES))("%s", (field, value) => {
    const without = field === "stream_options" ? { ...BASE, stream: true } : BASE;
    expect(["carried", "refused", "ignored"]).toContain(
      fateOf(field, without, { ...without, [field]: value }),
    );
  });

  test.each(Object.entries(NESTED))("%s", (_name, { wrap, samples }) => {
    for (const [field, value] of Object.entries(samples)) {
      // a discriminator is one of several, and only says which other fields there are
      if (field === "type" || field === "role") continue;
      const [without, request] = [
        { ...BASE, ...wrap({}) },
        { ...BASE, ...wrap({ [field]: value }) },
      ];
      const fate = fateOf(field, without, request);
      const isWholeRefused = outcomeOf(without).refused.some(({ field }) =>
        /type|role/.test(field),
      );
      if (!isWholeRefused) expect(["carried", "refused", "ignored"], field).toContain(fate);
    }
  });

  test("and so is every one that the package does not know", () => {
    const request = {
      ...BASE,
      top_k: 40,
      topK: 1,
      "x y\n": 1,
      messages: [
        { ...USER, reasoning_content: "Hm." },
        { role: "user", content: [{ type: "text", text: "a", cache_control: {} }] },
      ],
    };
    expect(outcomeOf(request).ignored).toEqual([
      "top_k",
      "topK",
      "x_y_",
      "messages.reasoning_content",
      "messages.content.cache_control",
    ]);
    const many = Object.fromEntries(Array.from({ length: 65 }, (_each, i) => [`field_${i}`, 1]));
    expect(outcomeOf({ ...BASE, ...many }).refused).toMatchObject([
      { field: "field_0", unsupported: true },
    ]);
  });
});

test("ChatCompletionCreateParams: values that ask for what a reply is anyway are accepted, and null is no value", () => {
  const usual = {
    ...{ n: 1, logprobs: false, top_logprobs: 0, logit_bias: {}, modalities: ["text"] },
    ...{ store: false, functions: [], function_call: "none" },
  };
  const nothing = Object.fromEntries(Object.keys(SAMPLES).map((field) => [field, null]));
  for (const given of [usual, { ...nothing, ...BASE }]) {
    const { refused, ignored } = outcomeOf({ ...BASE, ...given });
    expect({ refused, ignored }).toEqual({ refused: [], ignored: [] });
  }
});
