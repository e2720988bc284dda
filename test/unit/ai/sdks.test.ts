import type { IncomingHttpHeaders } from "node:http";
import { Anthropic } from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import { OpenAI } from "openai";
import { describe, expect, test } from "vitest";
import { REPLY } from "../../../scripts/simulators/script.ts";
import {
  KEY,
  SIMULATED_DIALECTS,
  type SimulatedDialect,
  type SimulatedRequest,
} from "../../../scripts/simulators/simulator.ts";
import { startSuiteBench } from "./support.ts";

type Body = Record<string, unknown>;
/**
 * Sends a request with this body by the official SDK of a dialect.
 * @returns the text of the reply
 */
type AskBySdk = (origin: string, body: Body, model: string) => Promise<string | null | undefined>;

const askOpenai: AskBySdk = async (origin, body) => {
  const { completions } = new OpenAI({ apiKey: KEY, baseURL: `${origin}/v1`, maxRetries: 0 }).chat;
  type Streamed = Parameters<typeof completions.stream>[0];
  if (body.stream) return completions.stream(body as unknown as Streamed).finalContent();
  const request = body as unknown as OpenAI.ChatCompletionCreateParamsNonStreaming;
  return (await completions.create(request)).choices[0]?.message.content;
};
const SDKS: Record<SimulatedDialect, AskBySdk> = {
  openai: askOpenai,
  "openai-compatible": askOpenai,
  async anthropic(origin, body) {
    const { messages } = new Anthropic({ apiKey: KEY, baseURL: origin, maxRetries: 0 });
    const request = body as unknown as Anthropic.MessageCreateParamsNonStreaming;
    const { content, stop_reason } = body.stream
      ? await messages.stream(request).finalMessage()
      : await messages.create(request);
    expect(stop_reason).toBe("end_turn");
    return content.map((part) => part.type === "text" && part.text).join();
  },
  async google(origin, { contents, systemInstruction, generationConfig, stream }, model) {
    const httpOptions = { baseUrl: origin };
    const { models } = new GoogleGenAI({
      apiKey: KEY,
      vertexai: false,
      apiVersion: "v1beta",
      httpOptions,
    });
    const request = {
      model,
      contents,
      config: { ...(generationConfig as object), systemInstruction },
    };
    type Request = Parameters<typeof models.generateContent>[0];
    if (!stream) return (await models.generateContent(request as Request)).text;
    let text = "";
    for await (const part of await models.generateContentStream(request as Request))
      text += part.text ?? "";
    return text;
  },
};

/** The headers that differ by client. */
const OWN = ["accept", "accept-encoding", "connection", "content-length", "host", "user-agent"];
const headersOf = (headers: IncomingHttpHeaders) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !OWN.includes(name)));
const target = ({ path, body }: SimulatedRequest) => ({ path, body });

describe.each(SIMULATED_DIALECTS)("Official SDK of %s", async (dialect) => {
  const bench = await startSuiteBench(dialect);
  const { simulator } = bench;
  const prompt = { ...bench.promptOf("plain"), systemPrompt: "Be brief.", maxTokens: 100 };
  const { upstream } = prompt.model;
  const lastRequest = () => simulator.requests.at(-1) as SimulatedRequest;

  test.each(["whole", "stream"] as const)(
    "sends the same request, and reads the reply (%s)",
    async (kind) => {
      await bench[kind](prompt);
      const ours = lastRequest();
      const body = { ...(ours.body as Body), ...(kind === "stream" && { stream: true }) };
      expect(await SDKS[dialect](simulator.url, body, upstream)).toBe(REPLY);
      const theirs = lastRequest();
      expect(target(ours)).toEqual(target(theirs));
      expect(headersOf(theirs.headers)).toMatchObject(headersOf(ours.headers));
    },
  );

  test.each(["no-space", "charset", "escapes", "bytes", "trailers"])(
    "reads the same text from a valid stream: %s",
    async (name) => {
      const ours = await bench.stream({ ...bench.promptOf(name), maxTokens: 100 });
      const body = { ...(lastRequest().body as Body), stream: true };
      expect(ours.failure).toBeUndefined();
      expect((await SDKS[dialect](simulator.url, body, upstream))?.toWellFormed()).toBe(ours.text);
    },
  );
});
