import { create, type MessageInitShape, toJson } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { openAiPath, readCompletion } from "../../../../gateway/formats/openai-request.ts";
import { CompleteRequestSchema } from "../../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import type { ServiceError } from "../../../../services/platform/rpc/errors.ts";
import { violationsOf } from "../../../../services/platform/rpc/validation.ts";

const USER = { role: "user", content: "Hello!" };
const read = (fields: object) =>
  readCompletion({ model: "model-a-1", messages: [USER], ...fields });
/** The request message as JSON. */
const messageOf = (fields: object) => toJson(CompleteRequestSchema, read(fields).message) as never;

/** The fields that are refused, with what is said of them. */
function refusedIn(fields: object): Record<string, string> {
  try {
    read(fields);
  } catch (error) {
    const { violations = [] } = (error as ServiceError).details;
    return Object.fromEntries(violations.map(({ field, message }) => [openAiPath(field), message]));
  }
  return {};
}

describe("POST /v1/chat/completions: the request message contains", () => {
  test("messages with text, images, tool calls and results", () => {
    const call = {
      id: "call_1",
      type: "function",
      function: { name: "weather", arguments: '{"city":"Bern"}' },
      extra_content: { google: { thought_signature: "c2ln" } },
    };
    const messages = [
      { role: "developer", content: "Be brief." },
      {
        role: "user",
        content: [
          { type: "text", text: "What is this?" },
          { type: "image_url", image_url: { url: "data:image/PNG;base64,aGk=", detail: "low" } },
          { type: "image_url", image_url: { url: "https://example.com/a.png" } },
        ],
      },
      { role: "assistant", content: "", tool_calls: [call] },
      { role: "tool", tool_call_id: "call_1", content: "12 °C" },
      { role: "assistant", content: "12 °C.", refusal: "More I will not say." },
    ];
    expect(messageOf({ messages })).toEqual({
      model: "model-a-1",
      messages: [
        { role: "system", parts: [{ text: "Be brief." }] },
        {
          role: "user",
          parts: [
            { text: "What is this?" },
            { image: { mediaType: "image/png", data: "aGk=", detail: "low" } },
            { image: { url: "https://example.com/a.png" } },
          ],
        },
        {
          role: "assistant",
          toolCalls: [
            {
              id: "call_1",
              name: "weather",
              arguments: '{"city":"Bern"}',
              thoughtSignature: "c2ln",
            },
          ],
        },
        { role: "tool", parts: [{ text: "12 °C" }], toolCallId: "call_1" },
        { role: "assistant", parts: [{ text: "12 °C." }, { text: "More I will not say." }] },
      ],
    });
  });

  test("tools, their choice and a response format, with schemas as text", () => {
    const schema = { type: "object", properties: { city: { type: "string" } } };
    const tools = [
      { type: "function", function: { name: "weather", description: "Tells it.", strict: true } },
      { type: "function", function: { name: "place", parameters: schema } },
    ];
    const json_schema = { name: "answer", schema, strict: true, description: "An answer." };
    const { messages: _, ...message } = messageOf({
      tools,
      tool_choice: { type: "function", function: { name: "place" } },
      response_format: { type: "json_schema", json_schema },
    }) as Record<string, unknown>;
    expect(message).toEqual({
      model: "model-a-1",
      tools: [
        { name: "weather", description: "Tells it.", strict: true },
        { name: "place", parametersJson: JSON.stringify(schema) },
      ],
      toolChoice: { mode: "function", name: "place" },
      responseFormat: {
        type: "json_schema",
        name: "answer",
        description: "An answer.",
        schemaJson: JSON.stringify(schema),
        strict: true,
      },
    });
    for (const mode of ["none", "auto", "required"])
      expect(messageOf({ tool_choice: mode })).toMatchObject({ toolChoice: { mode } });
    for (const type of ["text", "json_object"])
      expect(messageOf({ response_format: { type } })).toMatchObject({ responseFormat: { type } });
  });

  test("parameters, with their alternatives", () => {
    const numbers = { temperature: 0, top_p: 0.5, frequency_penalty: -1, presence_penalty: 1 };
    const given = { ...numbers, seed: -7, stop: "END", max_tokens: 9, reasoning_effort: "low" };
    expect(messageOf({ ...given, parallel_tool_calls: false, stream: true })).toMatchObject({
      ...{ temperature: 0, topP: 0.5, frequencyPenalty: -1, presencePenalty: 1 },
      ...{ seed: "-7", stop: ["END"], maxTokens: 9, reasoningEffort: "low" },
      ...{ parallelToolCalls: false, stream: true },
    });
    expect(messageOf({ max_completion_tokens: 8, max_tokens: 8, stop: ["a", "b"] })).toMatchObject({
      ...{ maxTokens: 8, stop: ["a", "b"] },
    });
    expect(read({ stream: true, stream_options: { include_usage: true } }).includeUsage).toBe(true);
    const useless = read({ stream_options: { include_usage: true } });
    expect([useless.includeUsage, useless.message.ignored]).toEqual([false, ["stream_options"]]);
  });
});

describe("POST /v1/chat/completions: a violation is reported for", () => {
  const part = (content: unknown) => ({ messages: [{ role: "user", content: [content] }] });
  const assistant = (fields: object) => ({ messages: [{ role: "assistant", ...fields }] });
  test.each<[field: string, message: RegExp, fields: object]>([
    ["messages", /must be a list/, { messages: "Hello!" }],
    ["messages[0]", /must be an object/, { messages: ["Hello!"] }],
    ["messages[0].content", /is required/, { messages: [{ role: "user" }] }],
    ["messages[0].content", /a string or a list/, { messages: [{ ...USER, content: 7 }] }],
    ["messages[0].role", /must be a string/, { messages: [{ role: 7, content: "a" }] }],
    ["messages[0].role", /not supported/, { messages: [{ role: "function", content: "a" }] }],
    [
      "messages[0].tool_calls",
      /is allowed only with the role assistant/,
      { messages: [{ ...USER, tool_calls: [] }] },
    ],
    [
      "messages[0].tool_call_id",
      /is allowed only with the role tool/,
      { messages: [{ ...USER, tool_call_id: "1" }] },
    ],
    ["messages[0].content[0]", /must be an object/, part("a")],
    ["messages[0].content[0].type", /not supported/, part({ type: "file", file: {} })],
    ["messages[0].content[0].type", /not supported/, part({ text: "a" })],
    ["messages[0].content[0].text", /must be a string/, part({ type: "text", text: 7 })],
    ["messages[0].content[0].text", /is required/, part({ type: "text" })],
    [
      "messages[0].content[0].image_url",
      /must be an object/,
      part({ type: "image_url", image_url: "a" }),
    ],
    [
      "messages[0].content[0].image_url.url",
      /base64/,
      part({ type: "image_url", image_url: { url: "data:,a" } }),
    ],
    ["messages[0].audio", /not supported/, assistant({ audio: { id: "1" } })],
    ["messages[0].function_call", /not supported/, assistant({ function_call: { name: "f" } })],
    [
      "messages[0].tool_calls[0].type",
      /not supported/,
      assistant({ tool_calls: [{ type: "custom", function: {} }] }),
    ],
    [
      "messages[0].tool_calls[0].function",
      /must be an object/,
      assistant({ tool_calls: [{ id: "1" }] }),
    ],
    [
      "messages[0].tool_calls[0].function.arguments",
      /must be a string/,
      assistant({ tool_calls: [{ id: "1", function: { name: "f", arguments: {} } }] }),
    ],
    ["tools", /must be a list/, { tools: {} }],
    ["tools[0]", /must be an object/, { tools: [7] }],
    ["tools[0].type", /not supported/, { tools: [{ type: "custom", custom: {} }] }],
    ["tools[0].function", /must be an object/, { tools: [{ type: "function" }] }],
    [
      "tools[0].function.parameters",
      /must be an object/,
      { tools: [{ function: { name: "f", parameters: [] } }] },
    ],
    [
      "tools[0].function.description",
      /must be a string/,
      { tools: [{ function: { name: "f", description: 7 } }] },
    ],
    ["tool_choice", /a string or an object/, { tool_choice: 7 }],
    ["tool_choice.type", /not supported/, { tool_choice: { type: "allowed_tools" } }],
    ["response_format", /must be an object/, { response_format: "json" }],
    [
      "response_format.json_schema.schema",
      /is required/,
      { response_format: { type: "json_schema" } },
    ],
    ["max_tokens", /must equal/, { max_tokens: 1, max_completion_tokens: 2 }],
    ["max_completion_tokens", /whole number/, { max_tokens: 1.5 }],
    ["seed", /whole number/, { seed: 2 ** 53 }],
    ["stop", /must be a list/, { stop: 7 }],
    ["stop[1]", /must be a string/, { stop: ["a", 7] }],
    ["stream", /true or false/, { stream: "yes" }],
    ["stream_options", /must be an object/, { stream: true, stream_options: true }],
    [
      "stream_options.include_usage",
      /true or false/,
      { stream: true, stream_options: { include_usage: 1 } },
    ],
    ["temperature", /must be a number/, { temperature: "0" }],
    ["n", /is supported only as 1/, { n: 2 }],
    ["logit_bias", /is not supported/, { logit_bias: { 1: 2 } }],
  ])("%s %s", (field, message, fields) => {
    const refused = refusedIn(fields);
    expect(Object.keys(refused)).toEqual([field]);
    expect(refused[field]).toMatch(message);
  });

  test.each<unknown>(["__proto__", "constructor", "toString", { toString: null }, [], 7, null])(
    "an unknown role or type, such as %j",
    (word) => {
      const roles = refusedIn({ messages: [{ role: word, content: "Hi", audio: {} }] });
      expect(Object.keys(roles)).not.toContain("messages[0].content");
      const types = refusedIn({ messages: [{ role: "user", content: [{ type: word }] }] });
      expect(types).toMatchObject({ "messages[0].content[0].type": expect.any(String) });
    },
  );

  test("all fields together", () => {
    expect(Object.keys(refusedIn({ n: 2, temperature: "0", tools: 7 }))).toEqual([
      "n",
      "tools",
      "temperature",
    ]);
  });
});

type Init = MessageInitShape<typeof CompleteRequestSchema>;
const parts = (part: object) => ({ messages: [{ role: "user", parts: [part] }] }) as Init;

test.each<[path: string, init: Init]>([
  ["messages[0].content[0]", { messages: [{ role: "user", parts: [{}] }] }],
  ["messages[0].role", { messages: [{ role: "x" }] }],
  [
    "messages[0].content[0].image_url.url",
    parts({ part: { case: "image", value: { url: "http://a" } } }),
  ],
  [
    "messages[0].content[0].image_url.detail",
    parts({ part: { case: "image", value: { detail: "x" } } }),
  ],
  [
    "messages[0].tool_calls[0].function.name",
    { messages: [{ role: "assistant", toolCalls: [{ id: "1", name: "ü" }] }] },
  ],
  ["tools[0].function.name", { tools: [{ name: "ü" }] }],
  ["tools[0].function.parameters", { tools: [{ name: "f", parametersJson: "x".repeat(70_000) }] }],
  ["tool_choice", { toolChoice: { mode: "x" } }],
  ["response_format.type", { responseFormat: { type: "x" } }],
  ["response_format.json_schema.name", { responseFormat: { type: "text", name: "ü" } }],
  ["max_completion_tokens", { maxTokens: 0 }],
  ["top_p", { topP: 2 }],
  ["reasoning_effort", { reasoningEffort: "x" }],
])("POST /v1/chat/completions: a violation that the services find is named %s", (path, init) => {
  const complete = create(CompleteRequestSchema, {
    model: "m",
    messages: [{ role: "user" }],
    ...init,
  });
  const found = violationsOf(CompleteRequestSchema, complete);
  expect(found.map(({ field }) => openAiPath(field))).toEqual([path]);
});
