import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
import { generateText, isStepCount, jsonSchema, Output, streamText, tool } from "ai";
import OpenAI from "openai";
import type { RunnableToolFunctionWithParse } from "openai/lib/RunnableFunction";
import { describe, expect, test } from "vitest";
import { AIService, type CompleteRequest } from "../../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { startSuiteGateway } from "../../../support/http/gateway.ts";

/**
 * OpenAI's clients, unchanged, with services that call two tools at once and reply to their results
 * with JSON.
 */
const CITIES = ["Zürich", "東京"];
const ANSWER = '{"warmer":"東京"}';
let received: CompleteRequest[] = [];

const server = await startSuiteGateway((router) =>
  router.service(AIService, {
    async *complete(request) {
      received.push(request);
      const value = { id: "1", provider: "provider-a", model: "model-a-1" };
      yield { event: { case: "started", value } };
      const isAnswered = request.messages.some(({ role }) => role === "tool");
      if (isAnswered || request.tools.length === 0) {
        yield { event: { case: "reasoning", value: "Hm." } };
        yield { event: { case: "text", value: ANSWER } };
        yield { event: { case: "finished", value: { finishReason: "stop" } } };
        return;
      }
      for (const index of CITIES.keys()) {
        const call = {
          index,
          id: `call_${index}`,
          name: "weather",
          thoughtSignature: `c2ln${index}`,
        };
        yield { event: { case: "toolCall", value: call } };
      }
      for (const [index, city] of CITIES.entries())
        for (const part of JSON.stringify({ city }).match(/.{1,3}/gsu) ?? [])
          yield { event: { case: "toolCall", value: { index, arguments: part } } };
      yield { event: { case: "finished", value: { finishReason: "tool_calls" } } };
    },
  }),
);
const at = { baseURL: `${server.url}/v1`, apiKey: "sk-gate-any" };
const parameters = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const schema = {
  type: "object",
  properties: { warmer: { type: "string" } },
  required: ["warmer"],
  additionalProperties: false,
} as const;
const IMAGE = "aGVsbG8=";
const weather = async ({ city }: { city: string }) => `12 °C in ${city}`;
const RESULTS = CITIES.map((city, i) => ({ id: `call_${i}`, text: `12 °C in ${city}` }));

/** What the services have received of the second round. */
function secondRound() {
  const { messages, tools } = received.at(-1) as CompleteRequest;
  return {
    tools: tools.map(({ name, parametersJson = "" }) => [name, JSON.parse(parametersJson)]),
    calls: messages.flatMap(({ toolCalls }) =>
      toolCalls.map(({ id, name, arguments: json }) => [id, name, JSON.parse(json).city]),
    ),
    results: messages
      .filter(({ role }) => role === "tool")
      .map(({ toolCallId: id, parts }) => ({ id, text: parts[0]?.part.value })),
  };
}
const SECOND_ROUND = {
  tools: [["weather", expect.objectContaining({ properties: parameters.properties })]],
  calls: CITIES.map((city, i) => [`call_${i}`, "weather", city]),
  results: RESULTS,
};

/** A client's ways: two rounds with tools, a reply by a schema, a question with an image. */
type Ways = Record<"tools" | "streamedTools" | "schema" | "image", () => Promise<unknown>>;

const openai = new OpenAI(at);
const vercel = createOpenAICompatible({
  name: "gatehouse",
  supportsStructuredOutputs: true,
  ...at,
})("model-a-1");
const langchain = new ChatOpenAI({
  model: "model-a-1",
  apiKey: at.apiKey,
  configuration: { baseURL: at.baseURL },
});

const asked = { role: "user" as const, content: "Where is it warmer?" };
const withImage = [
  { type: "text" as const, text: "What is this?" },
  { type: "image_url" as const, image_url: { url: `data:image/png;base64,${IMAGE}` } },
];
const vercelTools = {
  weather: tool({
    inputSchema: jsonSchema<{ city: string }>(parameters as object),
    execute: weather,
  }),
};
const bound = langchain.bindTools([
  { type: "function", function: { name: "weather", parameters: { ...parameters } } },
]);

const ways: Record<string, Ways> = {
  openai: {
    async tools() {
      const runner = openai.chat.completions.runTools({ ...runnable(), stream: false });
      return runner.finalContent();
    },
    async streamedTools() {
      const runner = openai.chat.completions.runTools({ ...runnable(), stream: true });
      return runner.finalContent();
    },
    async schema() {
      const { choices } = await openai.chat.completions.parse({
        model: "model-a-1",
        messages: [asked],
        response_format: {
          type: "json_schema",
          json_schema: { name: "answer", schema, strict: true },
        },
      });
      return choices[0]?.message.parsed;
    },
    image: () =>
      openai.chat.completions.create({
        model: "model-a-1",
        messages: [{ role: "user", content: withImage }],
      }),
  },
  "ai with @ai-sdk/openai-compatible": {
    async tools() {
      const stopWhen = isStepCount(3);
      return (
        await generateText({ model: vercel, messages: [asked], tools: vercelTools, stopWhen })
      ).text;
    },
    async streamedTools() {
      const stopWhen = isStepCount(3);
      return streamText({ model: vercel, messages: [asked], tools: vercelTools, stopWhen }).text;
    },
    async schema() {
      const output = Output.object({ schema: jsonSchema(schema as object) });
      return (await generateText({ model: vercel, messages: [asked], output })).output;
    },
    image: () =>
      generateText({
        model: vercel,
        messages: [
          {
            role: "user",
            content: [
              { type: "text", text: "What is this?" },
              { type: "file", data: IMAGE, mediaType: "image/png" },
            ],
          },
        ],
      }),
  },
  "@langchain/openai": {
    async tools() {
      const question = new HumanMessage(asked.content);
      const first = await bound.invoke([question]);
      return (await bound.invoke([question, first, ...(await resultsOf(first.tool_calls))])).text;
    },
    async streamedTools() {
      const question = new HumanMessage(asked.content);
      const pieces = [];
      for await (const piece of await bound.stream([question])) pieces.push(piece);
      const first = pieces.reduce((sum, piece) => sum.concat(piece));
      return (await bound.invoke([question, first, ...(await resultsOf(first.tool_calls))])).text;
    },
    schema: () =>
      langchain
        .withStructuredOutput({ ...schema }, { name: "answer", method: "jsonSchema", strict: true })
        .invoke([asked]),
    image: () => langchain.invoke([new HumanMessage({ content: withImage })]),
  },
};

const weatherTool: RunnableToolFunctionWithParse<{ city: string }> = {
  type: "function",
  function: {
    ...{ name: "weather", description: "Tells the weather.", parameters: { ...parameters } },
    parse: JSON.parse,
    function: weather,
  },
};
const runnable = () => ({ model: "model-a-1", messages: [asked], tools: [weatherTool] });

type Called = { id?: string; args: Record<string, unknown> };
const resultsOf = (calls: Called[] = []) =>
  Promise.all(
    calls.map(
      async ({ id = "", args }) =>
        new ToolMessage({ tool_call_id: id, content: await weather(args as { city: string }) }),
    ),
  );

describe.each(Object.entries(ways))("POST /v1/chat/completions called by %s", (_name, client) => {
  test.each(["tools", "streamedTools"] as const)(
    "two parallel tool calls and their results work (%s)",
    async (way) => {
      received = [];
      expect(await client[way]()).toBe(ANSWER);
      expect(received.length).toBe(2);
      expect(secondRound()).toEqual(SECOND_ROUND);
    },
  );

  test("a schema arrives unchanged, and its reply is parsed", async () => {
    expect(await client.schema()).toEqual(JSON.parse(ANSWER));
    const { type, schemaJson = "" } = received.at(-1)?.responseFormat ?? {};
    expect({ type, schema: JSON.parse(schemaJson) }).toMatchObject({ type: "json_schema", schema });
  });

  test("an image arrives with its data and media type", async () => {
    await client.image();
    const [message] = received.at(-1)?.messages ?? [];
    expect(message?.parts.map(({ part }) => part)).toMatchObject([
      { case: "text", value: "What is this?" },
      { case: "image", value: { mediaType: "image/png", data: IMAGE } },
    ]);
  });
});
