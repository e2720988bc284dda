import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
import { generateText, isStepCount, jsonSchema, streamText, tool } from "ai";
import OpenAI from "openai";
import type { RunnableToolFunctionWithParse } from "openai/lib/RunnableFunction";
import { describe, expect, test } from "vitest";
import { argumentsOf, CALLING } from "../../../scripts/simulators/dialect-encoder.ts";
import { REPLY } from "../../../scripts/simulators/script.ts";
import { PROVIDERS } from "../../support/ai/calls.ts";
import { createKey } from "../../support/api-keys.ts";
import { testApp } from "../../support/app.ts";

/**
 * OpenAI's clients, unchanged, in two rounds with a model that calls two tools at once. The last
 * result says what the second reply is.
 */
const app = await testApp();
const QUESTION = "case: calling";
const RESULT = "case: plain";
const CALLS = CALLING.calls.map((call) => JSON.parse(argumentsOf(call)));
const parameters = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "number" } },
  required: ["city"],
};

type Place = { model: string; apiKey: string; baseURL: string };
/** Asks, runs the tools, and asks again. */
type Rounds = (place: Place, run: (given: unknown) => string, isStream: boolean) => Promise<string>;

const CLIENTS: Record<string, Rounds> = {
  async openai({ model, ...place }, run, isStream) {
    const lookUp: RunnableToolFunctionWithParse<object> = {
      type: "function",
      function: {
        ...{ name: "look_up", description: "Looks it up.", parameters },
        parse: JSON.parse,
        function: run,
      },
    };
    const { completions } = new OpenAI(place).chat;
    const request = {
      ...{ model, tools: [lookUp] },
      messages: [{ role: "user" as const, content: QUESTION }],
    };
    const runner = isStream
      ? completions.runTools({ ...request, stream: true })
      : completions.runTools({ ...request, stream: false });
    return (await runner.finalContent()) ?? "";
  },
  async "ai with @ai-sdk/openai-compatible"({ model, ...place }, run, isStream) {
    const request = {
      model: createOpenAICompatible({ name: "gatehouse", ...place })(model),
      prompt: QUESTION,
      stopWhen: isStepCount(3),
      tools: {
        look_up: tool({
          inputSchema: jsonSchema<object>(parameters as object),
          execute: async (given) => run(given),
        }),
      },
    };
    return isStream ? streamText(request).text : (await generateText(request)).text;
  },
  async "@langchain/openai"({ model, apiKey, baseURL }, run, isStream) {
    const chat = new ChatOpenAI({ model, apiKey, configuration: { baseURL } });
    const bound = chat.bindTools([{ type: "function", function: { name: "look_up", parameters } }]);
    const question = new HumanMessage(QUESTION);
    const first = isStream
      ? await joined(await bound.stream([question]))
      : await bound.invoke([question]);
    const results = (first.tool_calls ?? []).map(
      ({ id = "", args }) => new ToolMessage({ tool_call_id: id, content: run(args) }),
    );
    return (await bound.invoke([question, first, ...results])).text;
  },
};

/** The pieces of a streamed message of LangChain, joined. */
async function joined<Piece extends { concat(other: Piece): Piece }>(stream: AsyncIterable<Piece>) {
  const pieces: Piece[] = [];
  for await (const piece of stream) pieces.push(piece);
  return pieces.reduce((sum, piece) => sum.concat(piece));
}

describe.each(Object.entries(CLIENTS))(
  "POST /v1/chat/completions called by %s",
  (_name, rounds) => {
    describe.each(PROVIDERS)("%s", (provider) => {
      test.each([false, true])(
        "calls two tools, and replies to their results (stream: %s)",
        async (isStream) => {
          const { key: apiKey } = await createKey(await app.signIn());
          const place = { model: `model-${provider.at(-1)}-1`, apiKey, baseURL: `${app.url}/v1` };
          const given: unknown[] = [];
          const run = (args: unknown) => {
            given.push(args);
            return RESULT;
          };
          expect(await rounds(place, run, isStream)).toBe(REPLY);
          expect(given).toEqual(CALLS);
        },
      );
    });
  },
);
