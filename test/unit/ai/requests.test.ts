import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { REPLY } from "../../../scripts/simulators/script.ts";
import {
  SIMULATED_DIALECTS,
  type SimulatedDialect,
} from "../../../scripts/simulators/simulator.ts";
import { isEmbedding } from "../../../services/ai/catalogue.ts";
import { BLANKS } from "../../support/ai/calls.ts";
import { messageOf, type Prompt, startSuiteBench, startTestBench } from "./support.ts";

type Model = Prompt["model"];
type Message = Prompt["messages"][number];

/** Messages by their text, such as `user: Hello. | assistant: Hello!`. */
const messagesOf = (text: string) =>
  text.split(" | ").map((message) => {
    const [, role = "", content = ""] = /^(\w+): (.*)$/.exec(message) ?? [];
    return messageOf(role as Message["role"], content);
  });

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
      model: "gpt-6-luna",
      messages: [sent("developer", SYSTEM), sent("user", USER)],
      max_completion_tokens: 128_000,
      temperature: 2,
      reasoning_effort: "none",
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
    for (const model of bench.entry.models.filter((each) => !isEmbedding(each))) {
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

const { version } = JSON.parse(readFileSync("package.json", "utf8"));

describe.each(SIMULATED_DIALECTS)("Provider requests to %s", async (dialect) => {
  const bench = await startSuiteBench(dialect);
  const lastBody = () => JSON.stringify(bench.simulator.requests.at(-1)?.body);

  test.each(["whole", "stream"] as const)(
    "name the client and the accepted types (%s)",
    async (kind) => {
      await bench[kind]("plain");
      expect(bench.simulator.requests.at(-1)?.headers).toMatchObject({
        "user-agent": `gatehouse/${version}`,
        accept: expect.stringMatching(/application\/json.*text\/event-stream/),
      });
    },
  );

  test.each(BLANKS)("omit text that consists only of %s", async (_, blank) => {
    const text = "\ncase: plain \n";
    const user = messageOf("user", text);
    await bench.whole({ ...bench.promptOf("plain"), messages: [user] });
    const expected = lastBody();
    expect(expected).toContain(JSON.stringify(text)); // as it was given
    const surrounded: Message[][] = [
      [messageOf("assistant", blank), user],
      [user, messageOf("system", blank)],
      [messageOf("user", blank), user],
    ];
    for (const messages of surrounded) {
      const prompt = { ...bench.promptOf("plain"), systemPrompt: blank, messages };
      expect(await bench.whole(prompt)).toMatchObject({ text: REPLY });
      expect(lastBody()).toBe(expected);
    }
    const unanswered = [messageOf("assistant", "Hello."), messageOf("user", blank)];
    expect(
      (await bench.whole({ ...bench.promptOf("plain"), messages: [user, ...unanswered] })).failure,
    ).toBeUndefined();
    expect(lastBody()).not.toContain(JSON.stringify(blank));
  });
});

describe("Provider requests to Google's models", async () => {
  const bench = await startSuiteBench("google");
  const ask = async (given: Partial<Model>, prompt: Partial<Prompt> = {}) => {
    const plain = bench.promptOf("plain");
    const model = { ...plain.model, ...given };
    await bench.whole({ ...plain, systemPrompt: "Be brief.", ...prompt, model });
    return bench.simulator.requests.at(-1);
  };

  test.each([
    { messages: "user: Hello.", contents: "user: Be brief.\n\nHello." },
    {
      messages: "user: Hello. | assistant: Hi. | system: Be kind. | user: And now?",
      contents: "user: Be brief.\n\nBe kind.\n\nHello. | model: Hi. | user: And now?",
    },
    {
      messages: "assistant: Hi. | user: Hello.",
      contents: "user: Be brief. | model: Hi. | user: Hello.",
    },
  ])(
    "contain the system text in the first user turn, if the model has no other place for it ($messages)",
    async ({ messages, contents }) => {
      const request = await ask(
        { upstream: "gemma-3-27b-it", systemRole: "user" },
        { messages: messagesOf(messages) },
      );
      const body = request?.body as { contents: { role: string; parts: { text: string }[] }[] };
      expect(body).not.toHaveProperty("systemInstruction");
      expect(body.contents.map(({ role, parts }) => `${role}: ${parts[0]?.text}`).join(" | ")).toBe(
        contents,
      );
    },
  );

  test.each([
    { upstream: "gemini-3.8-flash", path: "models/gemini-3.8-flash" },
    { upstream: "models/gemini-3.8-flash", path: "models/gemini-3.8-flash" },
    { upstream: "tunedModels/my-model-1", path: "tunedModels/my-model-1" },
    { upstream: "my model", path: "models/my%20model" },
    { upstream: "tunedModels/a?b#c", path: "tunedModels/a%3Fb%23c" },
    {
      upstream: "publishers/google/models/gemini-3.8-flash",
      path: "publishers/google/models/gemini-3.8-flash",
    },
  ])("name the resource of $upstream", async ({ upstream, path }) => {
    expect((await ask({ upstream }))?.path).toBe(`/v1beta/${path}:generateContent`);
  });
});

test("Provider requests: system text can be in the first user turn of any dialect", async () => {
  const bench = await startTestBench("anthropic");
  const prompt = bench.promptOf("plain");
  const model = { ...prompt.model, systemRole: "user" as const };
  expect(await bench.whole({ ...prompt, model, systemPrompt: "Be brief." })).toMatchObject({
    text: REPLY,
  });
  const body = bench.simulator.requests.at(-1)?.body;
  expect(body).not.toHaveProperty("system");
  expect(body).toMatchObject({ messages: [sent("user", "Be brief.\n\ncase: plain")] });
});

test("Provider requests: a stream requests usage if the model allows it, and no padding from OpenAI", async () => {
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
