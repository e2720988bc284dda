import type { GenerateContentResponse } from "@google/genai";
import { type Adapter, finishReasonOf, requireText, userTurnsOf } from "./adapter.ts";
import type { ProviderErrorKind } from "./errors.ts";

/** Gemini refuses zero. */
const LOWEST_TEMPERATURE = 0.001;

/**
 * Gemini. Every event of a stream is a complete response object. The end of the body is the end.
 */
export const googleAdapter: Adapter = {
  path: ({ model, isStream }) =>
    `v1beta/models/${encodeURIComponent(model.upstream)}:${isStream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
  headers: (key) => ({ "x-goog-api-key": key }),
  body(prompt) {
    const { system, outputTokens, temperature } = prompt;
    return {
      contents: userTurnsOf(prompt).map(({ role, content }) => ({
        role: role === "assistant" ? "model" : role,
        parts: [{ text: content }],
      })),
      systemInstruction: system ? { parts: [{ text: system }] } : undefined,
      generationConfig: {
        maxOutputTokens: outputTokens,
        temperature: temperature === 0 ? LOWEST_TEMPERATURE : temperature,
      },
    };
  },
  parse(document) {
    const {
      candidates,
      promptFeedback,
      usageMetadata: usage,
    } = document as GenerateContentResponse;
    const parts = candidates?.[0]?.content?.parts ?? [];
    const reason = candidates?.[0]?.finishReason;
    const blockReason = promptFeedback?.blockReason;
    return {
      text: parts.map((part) => (part.thought ? "" : requireText(part.text))).join(""),
      // Counts are cumulative. An event may leave out those that are zero so far, and the last one
      // any.
      usage: usage && {
        inputTokens: usage.promptTokenCount,
        outputTokens: (usage.candidatesTokenCount ?? 0) + (usage.thoughtsTokenCount ?? 0),
      },
      active: parts.some((part) => part.thought),
      finished: finishReasonOf(reason ?? blockReason, ["MAX_TOKENS"]),
      callsTool: parts.some((part) => part.functionCall), // with the reason STOP
      failed: blockReason ? "blocked the content" : failureOf(reason),
    };
  },
};

/** Finish reasons of a good reply, and of the filters. Any other is a failure. */
const COMPLETE = new Set(["STOP", "MAX_TOKENS"]);
const BLOCKED = new Set([
  "SAFETY",
  "RECITATION",
  "LANGUAGE",
  "BLOCKLIST",
  "PROHIBITED_CONTENT",
  "SPII",
]);

function failureOf(reason: string | null | undefined): ProviderErrorKind | undefined {
  if (!reason || COMPLETE.has(reason)) return undefined;
  return BLOCKED.has(reason) ? "blocked the content" : "broke off";
}
