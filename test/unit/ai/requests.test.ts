import { describe, expect, test } from "vitest";
import { REPLY } from "../../../scripts/simulators/script.ts";
import {
  SIMULATED_DIALECTS,
  type SimulatedDialect,
} from "../../../scripts/simulators/simulator.ts";
import { type Prompt, startSuiteBench, startTestBench } from "./support.ts";

type Model = Prompt["model"];

/** Messages by their text, such as `user: Hello. | assistant: Hello!`. */
const messagesOf = (text: string) =>
  text.split(" | ").map((message) => {
    const [, role = "", content = ""] = /^(\w+): (.*)$/.exec(message) ?? [];
    return { role, content };
  }) as Prompt["messages"];

/** A conversation with everything that some provider refuses. */
const demanding = (model: Model): Prompt => ({
  model,
  systemPrompt: "Be brief.",
  messages: messagesOf(
    "user: One. | user: Two. | assistant:  | system: Be kind. | user: case: plain",
  ),
  maxTokens: 1_000_000,
  temperature: 2,
});

const SYSTEM = "Be brief.\n\nBe kind.";
const USER = "One.\n\nTwo.\n\ncase: plain";
const sent = (role: string, content: string) => ({ role, content });

/** A model with a temperature, and the body that must be sent to it. */
const SENT: Record<SimulatedDialect, { model: string; body: object }> = {
  openai: {
    model: "model-a-3",
    body: {
      model: "gpt-4.1",
      messages: [sent("developer", SYSTEM), sent("user", USER)],
      max_completion_tokens: 32_768,
      temperature: 2,
    },
  },
  anthropic: {
    model: "model-b-4",
    body: {
      model: "claude-haiku-4-5",
      system: SYSTEM,
      messages: [sent("user", USER)],
      max_tokens: 64_000,
      temperature: 1,
      stream: false,
    },
  },
  google: {
    model: "model-c-2",
    body: {
      systemInstruction: { parts: [{ text: SYSTEM }] },
      contents: [{ role: "user", parts: [{ text: USER }] }],
      generationConfig: { maxOutputTokens: 65_536, temperature: 2 },
    },
  },
  "openai-compatible": {
    model: "model-d-1",
    body: {
      model: "mistral-large-latest",
      messages: [sent("system", SYSTEM), sent("user", USER)],
      max_tokens: 32_768,
      temperature: 1.5,
    },
  },
};

describe.each(SIMULATED_DIALECTS)("Provider requests to %s", async (dialect) => {
  const bench = await startSuiteBench(dialect);
  const body = () => bench.simulator.requests.at(-1)?.body;

  test("are accepted by the provider for every kind of prompt", async () => {
    const { model: name, body: expected } = SENT[dialect];
    const model = bench.entry.models.find((each) => each.name === name) as Model;
    expect(await bench.whole(demanding(model))).toMatchObject({ text: REPLY });
    expect(body()).toEqual(expected);
    expect(await bench.whole({ ...demanding(model), temperature: 0 })).toMatchObject({
      text: REPLY,
    });
    expect(JSON.stringify(body())).toMatch(/"temperature":0/);
    await bench.whole("plain");
    expect(JSON.stringify(body())).not.toMatch(/temperature|system|developer/); // of what the prompt does not set
  });

  test("are accepted for every model of the catalogue, streamed or not", async () => {
    for (const model of bench.entry.models) {
      expect(await bench.whole(demanding(model))).toMatchObject({ text: REPLY });
      expect(await bench.stream(demanding(model))).toMatchObject({ text: REPLY });
    }
  });

  test.each([
    [
      "has a system message after an assistant message",
      "user: Hello. | assistant: Hello! | system: Be kind. | user: case: plain",
    ],
    ["begins with an assistant message", "assistant: Hello! | user: case: plain"],
    ["ends with an assistant message", "user: Tell me a story. | assistant: Hello, long ago"],
    [
      "ends with system messages",
      "user: Tell me a story. | assistant: Hello, long ago | user:  | system: Be kind.",
    ],
  ])("are accepted if the conversation %s", async (_what, text) => {
    const prompt = {
      model: bench.entry.models[0],
      systemPrompt: "Be brief.",
      messages: messagesOf(text),
    };
    expect((await bench.whole(prompt)).failure).toBeUndefined();
    expect((await bench.stream(prompt)).failure).toBeUndefined();
    expect(JSON.stringify(body())).not.toMatch(/Be kind\..*Be brief\..*Hello/); // the prompt comes first
  });
});

test("Provider requests: a stream requests usage where the model allows it, and no padding from OpenAI", async () => {
  for (const [dialect, stream_options] of [
    ["openai", { include_usage: true, include_obfuscation: false }],
    ["openai-compatible", undefined],
  ] as const) {
    const bench = await startTestBench(dialect);
    await bench.stream("plain");
    const [request] = bench.simulator.requests;
    expect({ stream_options: undefined, ...(request?.body as object) }).toMatchObject({
      stream: true,
      stream_options,
    });
    expect(request?.headers).toMatchObject({ "accept-encoding": "identity" });
  }
});
