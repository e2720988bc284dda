import { Anthropic } from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import { OpenAI } from "openai";
import type { SimulatedDialect } from "../../../../scripts/simulators/simulator.ts";

/** What an official SDK makes of a reply: its text, and whether it reports a failure. */
export type SdkOutcome = { text: string; failed: boolean };

type Ask = (origin: string, maxTokens: number, add: (text: string) => void) => Promise<void>;
type Asks = { stream: Ask; whole: Ask };

const messages = [{ role: "user" as const, content: "Hi there" }];

const openaiOf = (origin: string) =>
  new OpenAI({ apiKey: "key", baseURL: origin, maxRetries: 0, logLevel: "off" }).chat.completions;

const openai: Asks = {
  async stream(origin, max_tokens, add) {
    const request = { model: "m", messages, max_tokens, stream: true } as const;
    for await (const { choices } of await openaiOf(origin).create(request))
      add(choices?.[0]?.delta?.content ?? "");
  },
  async whole(origin, max_tokens, add) {
    const { choices } = await openaiOf(origin).create({ model: "m", messages, max_tokens });
    const content: unknown = choices[0]?.message.content ?? "";
    add(typeof content === "string" ? content : JSON.stringify(content));
  },
};

const anthropicOf = (origin: string) =>
  new Anthropic({ apiKey: "key", baseURL: origin, maxRetries: 0, logLevel: "off" }).messages;

const anthropic: Asks = {
  async stream(origin, max_tokens, add) {
    const stream = anthropicOf(origin).stream({ model: "m", messages, max_tokens });
    stream.on("text", add);
    await stream.finalMessage();
  },
  async whole(origin, max_tokens, add) {
    const { content } = await anthropicOf(origin).create({ model: "m", messages, max_tokens });
    for (const block of content) add(block.type === "text" ? block.text : "");
  },
};

const googleOf = (baseUrl: string) =>
  new GoogleGenAI({ apiKey: "key", vertexai: false, httpOptions: { baseUrl } }).models;

const google: Asks = {
  async stream(origin, maxOutputTokens, add) {
    const request = { model: "m", contents: "Hi there", config: { maxOutputTokens } };
    for await (const { text } of await googleOf(origin).generateContentStream(request))
      add(text ?? "");
  },
  async whole(origin, maxOutputTokens, add) {
    const request = { model: "m", contents: "Hi there", config: { maxOutputTokens } };
    add((await googleOf(origin).generateContent(request)).text ?? "");
  },
};

const SDKS: Record<SimulatedDialect, Asks> = {
  openai,
  "openai-compatible": openai,
  anthropic,
  google,
};

/** Reads a reply by the official SDK of a dialect. `maxTokens` is the only thing that varies. */
export async function askSdk(
  dialect: SimulatedDialect,
  kind: keyof Asks,
  { origin, maxTokens }: { origin: string; maxTokens: number },
): Promise<SdkOutcome> {
  let text = "";
  const add = (piece: string) => {
    text += piece;
  };
  const failed = await SDKS[dialect][kind](origin, maxTokens, add).then(
    () => false,
    () => true,
  );
  return { text, failed };
}
