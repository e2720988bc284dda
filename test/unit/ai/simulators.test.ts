import { Anthropic } from "@anthropic-ai/sdk";
import { type GenerateContentResponse, GoogleGenAI } from "@google/genai";
import { OpenAI } from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { REPLY } from "../../../scripts/simulators/script.ts";
import { type Simulator, startProviderSimulator } from "../../../scripts/simulators/simulator.ts";

const key = "simulated-key";
const content = "case: plain";
const tokens = { input: 3, output: Math.ceil(REPLY.length / 4) };

describe.each([
  ["openai", "gpt-4.1"],
  ["openai-compatible", "mistral-large-latest"],
] as const)("Provider simulator of %s, by the official OpenAI SDK", (dialect, model) => {
  let simulator: Simulator;
  let sdk: OpenAI;
  beforeAll(async () => {
    simulator = await startProviderSimulator({ dialect });
    sdk = new OpenAI({ apiKey: key, baseURL: `${simulator.url}/v1`, maxRetries: 0 });
  });
  afterAll(() => simulator.close());
  const messages = [{ role: "user" as const, content }];

  test("answers a complete reply", async () => {
    const completion = await sdk.chat.completions.create({ model, messages });
    expect(completion.choices[0]?.message.content).toBe(REPLY);
    expect(completion.usage).toMatchObject({ prompt_tokens: tokens.input, completion_tokens: tokens.output });
  });
  test("streams a reply", async () => {
    let text = "";
    const usage = dialect === "openai" ? { stream_options: { include_usage: true } } : {};
    let reported: unknown;
    for await (const chunk of await sdk.chat.completions.create({ model, messages, stream: true, ...usage })) {
      text += chunk.choices[0]?.delta.content ?? "";
      reported = chunk.usage ?? reported;
    }
    expect(text).toBe(REPLY);
    expect(reported).toMatchObject({ prompt_tokens: tokens.input, completion_tokens: tokens.output });
  });
  test("refuses invalid requests as the real provider does", async () => {
    const wrongKey = sdk.withOptions({ apiKey: "wrong" }).chat.completions.create({ model, messages });
    await expect(wrongKey).rejects.toMatchObject({ status: 401, code: "invalid_api_key" });
    const unknownModel = sdk.chat.completions.create({ model: "unheard-of", messages });
    await expect(unknownModel).rejects.toMatchObject({ status: 404, code: "model_not_found" });
    const tooHot = sdk.chat.completions.create({ model, messages, temperature: 2.5 });
    await expect(tooHot).rejects.toMatchObject({ status: 400, param: "temperature" });
    const otherField = dialect === "openai" ? { max_tokens: 5 } : { max_completion_tokens: 5 };
    await expect(sdk.chat.completions.create({ model, messages, ...otherField })).rejects.toMatchObject({
      status: 400,
    });
  });
});

describe("Provider simulator of anthropic, by the official SDK", () => {
  let simulator: Simulator;
  let sdk: Anthropic;
  beforeAll(async () => {
    simulator = await startProviderSimulator({ dialect: "anthropic" });
    sdk = new Anthropic({ apiKey: key, baseURL: simulator.url, maxRetries: 0 });
  });
  afterAll(() => simulator.close());
  const messages = [{ role: "user" as const, content }];
  const basics = { model: "claude-haiku-4-5", max_tokens: 100, messages };

  test("answers a complete reply", async () => {
    const message = await sdk.messages.create(basics);
    expect(message.content).toEqual([{ type: "text", text: REPLY }]);
    expect(message.stop_reason).toBe("end_turn");
    expect(message.usage).toMatchObject({ input_tokens: 2, cache_read_input_tokens: 1, output_tokens: tokens.output });
  });
  test("streams a reply", async () => {
    const message = await sdk.messages.stream(basics).finalMessage();
    expect(message.content).toMatchObject([{ type: "text", text: REPLY }]);
    expect(message.usage.output_tokens).toBe(tokens.output);
  });
  test("refuses invalid requests as the real provider does", async () => {
    const wrongKey = sdk.withOptions({ apiKey: "wrong" }).messages.create(basics);
    await expect(wrongKey).rejects.toMatchObject({ status: 401 });
    await expect(sdk.messages.create({ ...basics, model: "unheard-of" })).rejects.toMatchObject({ status: 404 });
    await expect(sdk.post("/v1/messages", { body: { ...basics, temperature: 1 } })).rejects.toMatchObject({
      status: 400,
    });
    await expect(sdk.post("/v1/messages", { body: { ...basics, max_tokens: undefined } })).rejects.toMatchObject({
      status: 400,
    });
  });
});

describe("Provider simulator of google, by the official SDK", () => {
  let simulator: Simulator;
  let sdk: GoogleGenAI;
  const connect = (apiKey: string) =>
    new GoogleGenAI({ apiKey, vertexai: false, httpOptions: { baseUrl: simulator.url } });
  beforeAll(async () => {
    simulator = await startProviderSimulator({ dialect: "google" });
    sdk = connect(key);
  });
  afterAll(() => simulator.close());
  const basics = { model: "gemini-3.5-flash", contents: content };
  const usage = { promptTokenCount: tokens.input };

  test("answers a complete reply", async () => {
    const response = await sdk.models.generateContent({ ...basics, config: { maxOutputTokens: 100, temperature: 1 } });
    expect(response.text).toBe(REPLY);
    expect(response.candidates?.[0]?.finishReason).toBe("STOP");
    expect(response.usageMetadata).toMatchObject({ ...usage, candidatesTokenCount: tokens.output });
  });
  test("streams a reply", async () => {
    let text = "";
    let last: GenerateContentResponse | undefined;
    for await (last of await sdk.models.generateContentStream(basics)) text += last.text ?? "";
    expect(text).toBe(REPLY);
    expect(last?.candidates?.[0]?.finishReason).toBe("STOP");
    expect(last?.usageMetadata).toMatchObject(usage);
    const { candidatesTokenCount = 0, thoughtsTokenCount = 0 } = last?.usageMetadata ?? {};
    expect(candidatesTokenCount + thoughtsTokenCount).toBe(tokens.output);
  });
  test("refuses invalid requests as the real provider does", async () => {
    const wrongKey = connect("wrong").models.generateContent(basics);
    await expect(wrongKey).rejects.toMatchObject({ status: 400, message: expect.stringContaining("API_KEY_INVALID") });
    const unknownModel = sdk.models.generateContent({ ...basics, model: "unheard-of" });
    await expect(unknownModel).rejects.toMatchObject({ status: 404 });
    const tooHot = sdk.models.generateContent({ ...basics, config: { temperature: 2.5 } });
    await expect(tooHot).rejects.toMatchObject({ status: 400 });
    await expect(sdk.models.generateContentStream({ ...basics, contents: "" })).rejects.toMatchObject({ status: 400 });
  });
});
