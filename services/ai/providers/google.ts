import type { Adapter } from "./adapter.ts";
import { finishReasonOf, type ParsedEvent, type ResponseParser, requireText } from "./decode.ts";
import type { ProviderErrorKind } from "./errors.ts";
import { type Endpoint, joinUrl } from "./http-client.ts";
import type { Prompt, Usage } from "./provider.ts";
import { outputTokensOf, systemTextOf, temperatureOf, toMessages } from "./provider.ts";

/** Gemini. */
export function googleAdapter({ baseUrl, key, http }: Endpoint): Adapter {
  const models = joinUrl(baseUrl, "v1beta/models/");
  const headers = { "x-goog-api-key": key };
  return {
    ...googleParser,
    send(prompt, stream, signal) {
      const method = stream ? "streamGenerateContent?alt=sse" : "generateContent";
      const path = `${models.path}${encodeURIComponent(prompt.model.upstream)}:${method}`;
      return http.post({ ...models, path }, headers, requestOf(prompt), signal);
    },
  };
}

/** Gemini refuses zero. */
const LOWEST_TEMPERATURE = 0.001;

function requestOf(prompt: Prompt) {
  const system = systemTextOf(prompt);
  const temperature = temperatureOf(prompt);
  const contents = toMessages(prompt).map(({ role, content }) => ({
    role: role === "assistant" ? "model" : role,
    parts: [{ text: content }],
  }));
  return {
    contents,
    ...(system !== undefined && { systemInstruction: { parts: [{ text: system }] } }),
    generationConfig: {
      maxOutputTokens: outputTokensOf(prompt),
      ...(temperature !== undefined && { temperature: Math.max(temperature, LOWEST_TEMPERATURE) }),
    },
  };
}

type Body = {
  candidates?: {
    content?: { parts?: { text?: string; thought?: boolean; functionCall?: object }[] };
    finishReason?: string | null;
  }[];
  promptFeedback?: { blockReason?: string };
  usageMetadata?: { promptTokenCount?: number; candidatesTokenCount?: number; thoughtsTokenCount?: number };
};

/** Every event of a stream is a complete response object, so one function parses both. The end of the body is the end. */
export const googleParser: ResponseParser = { parseEvent: parseResponse, parseBody: parseResponse };

function parseResponse(body: object): ParsedEvent {
  const { candidates, promptFeedback, usageMetadata } = body as Body;
  const parts = candidates?.[0]?.content?.parts ?? [];
  const reason = candidates?.[0]?.finishReason;
  return {
    text: parts.map((part) => (part.thought ? "" : requireText(part.text))).join(""),
    active: parts.some((part) => part.thought),
    usage: usageOf(usageMetadata),
    finished: finishReasonOf(reason ?? promptFeedback?.blockReason, ["MAX_TOKENS"]),
    callsTool: parts.some((part) => part.functionCall), // with the reason STOP
    failed: promptFeedback?.blockReason ? "blocked the content" : failureOf(reason),
  };
}

/** Finish reasons of a good reply, and of the filters. Any other is a failure. */
const COMPLETE = new Set(["STOP", "MAX_TOKENS"]);
const BLOCKED = new Set(["SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"]);

function failureOf(reason: string | null | undefined): ProviderErrorKind | undefined {
  if (!reason || COMPLETE.has(reason)) return undefined;
  return BLOCKED.has(reason) ? "blocked the content" : "broke off";
}

/** Counts are cumulative. An event may leave out those that are zero so far, and the last one any. */
function usageOf(usage: Body["usageMetadata"]): Usage | undefined {
  if (typeof usage?.promptTokenCount !== "number") return undefined;
  return {
    inputTokens: usage.promptTokenCount,
    outputTokens: (usage.candidatesTokenCount ?? 0) + (usage.thoughtsTokenCount ?? 0),
  };
}
