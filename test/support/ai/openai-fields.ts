// Every field of OpenAI's request for a chat completion, with a value that asks for something.

import type OpenAI from "openai";

type Params = OpenAI.ChatCompletionCreateParamsStreaming;
export type Json = Record<string, unknown>;

/** A text that tests find wherever it goes. */
const MARK = "Marked01";
const USER = { role: "user", content: "Hello!" };
export const BASE = { model: "model-a-1", messages: [USER] as Json[] };
const SCHEMA = { type: "object", properties: { [MARK]: { type: "string" } } };
const FUNCTION = { name: MARK, description: MARK, parameters: SCHEMA, strict: true };
const IMAGE = `data:image/png;base64,${MARK}`;
const OTHER_IMAGE = "data:image/png;base64,aGVsbG8=";
/** Google's models require it of every call. */
const SIGNED = { extra_content: { google: { thought_signature: "CiQ+/w==" } } };

/** A value for every field of OpenAI's request type that asks for something. */
export const SAMPLES: { [Field in keyof Required<Params>]: unknown } = {
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
export const NESTED: Record<
  string,
  { wrap: (member: Json) => Json; samples: Record<string, unknown> }
> = {
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
      tool_calls: [{ id: MARK, function: { name: "f", arguments: "{}" }, ...SIGNED }],
    },
  },
  ChatCompletionToolMessageParam: {
    wrap: (member) => ({
      messages: [
        USER,
        { role: "assistant", tool_calls: [CALL] },
        { ...resultOf("call_1"), ...member },
      ],
    }),
    samples: { role: "tool", content: MARK, tool_call_id: MARK },
  },
  ChatCompletionContentPartText: {
    wrap: (member) => partWith({ type: "text", text: "a", ...member }),
    samples: { type: "text", text: MARK, prompt_cache_breakpoint: { mode: "explicit" } },
  },
  ChatCompletionContentPartImage: {
    wrap: (member) => partWith({ type: "image_url", image_url: { url: OTHER_IMAGE }, ...member }),
    samples: {
      type: "image_url",
      image_url: { url: IMAGE },
      prompt_cache_breakpoint: { mode: "explicit" },
    },
  },
  "ChatCompletionContentPartImage.ImageURL": {
    wrap: (member) => partWith({ type: "image_url", image_url: { url: OTHER_IMAGE, ...member } }),
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

const CALL = {
  ...{ id: "call_1", type: "function", function: { name: "f", arguments: "{}" } },
  ...SIGNED,
};
const resultOf = (id: unknown): Json => ({ role: "tool", tool_call_id: id, content: "12" });

/**
 * A conversation with a message of a role, and the results of its tool calls or a further question.
 */
function messageWith(role: string, member: Json): Json {
  const calls = (member.tool_calls ?? []) as { id: string }[];
  const message = { role, content: "a", ...member };
  const rest = calls.length > 0 ? calls.map(({ id }) => resultOf(id)) : [USER];
  return { messages: [USER, message, ...rest] };
}

const partWith = (part: Json): Json => messageWith("user", { content: [part] });
const callWith = (member: Json): Json =>
  messageWith("assistant", { tool_calls: [{ ...CALL, ...member }] });
