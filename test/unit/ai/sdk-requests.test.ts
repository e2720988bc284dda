import type { IncomingHttpHeaders } from "node:http";
import { Anthropic } from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import { OpenAI } from "openai";
import { describe, expect, test } from "vitest";
import type { SimulatedDialect, SimulatedRequest } from "../../../scripts/simulators/simulator.ts";
import { DIALECTS, promptOf, readStream, readWhole, startBench } from "./support.ts";

const apiKey = "simulated-key";
type Body = Record<string, unknown>;
/** Sends a request with this body by the official SDK of a dialect. */
type SendBySdk = (origin: string, body: Body, model: string, isStream: boolean) => Promise<unknown>;

const openai: SendBySdk = (origin, body) =>
  new OpenAI({ apiKey, baseURL: `${origin}/v1`, maxRetries: 0 }).chat.completions.create(
    body as unknown as OpenAI.ChatCompletionCreateParams,
  );
const SDKS: Record<SimulatedDialect, SendBySdk> = {
  openai,
  "openai-compatible": openai,
  anthropic: (origin, body) =>
    new Anthropic({ apiKey, baseURL: origin, maxRetries: 0 }).messages.create(
      body as unknown as Anthropic.MessageCreateParams,
    ),
  google: (origin, { contents, systemInstruction, generationConfig }, model, isStream) => {
    const { models } = new GoogleGenAI({
      apiKey,
      vertexai: false,
      apiVersion: "v1beta",
      httpOptions: { baseUrl: origin },
    });
    const request = { model, contents, config: { ...(generationConfig as object), systemInstruction } } as Parameters<
      typeof models.generateContent
    >[0];
    return isStream ? models.generateContentStream(request) : models.generateContent(request);
  },
};

/** The headers that differ by client. */
const OWN = ["accept-encoding", "connection", "content-length", "host"];
const headersOf = (headers: IncomingHttpHeaders) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !OWN.includes(name)));
const target = ({ path, body }: SimulatedRequest) => ({ path, body });

describe.each(DIALECTS)("Provider client for %s", (dialect) => {
  test.each([
    ["whole", readWhole],
    ["streamed", readStream],
  ] as const)("sends the same request as the official SDK (%s)", async (_kind, read) => {
    const bench = await startBench(dialect);
    const prompt = { ...promptOf(bench, "case: plain"), system: "Be brief.", maxTokens: 100 };
    await read(bench.provider, prompt);
    const [ours] = bench.simulator.requests as [SimulatedRequest];
    await SDKS[dialect](bench.simulator.url, ours.body as Body, prompt.model.upstream, read === readStream);
    const theirs = bench.simulator.requests.at(-1) as SimulatedRequest;
    expect(target(ours)).toEqual(target(theirs));
    expect(headersOf(theirs.headers)).toMatchObject(headersOf(ours.headers));
    await bench.close();
  });
});
