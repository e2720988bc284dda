import type { Content, GenerateContentResponse, Part } from "@google/genai";
import { type Adapter, textOfPart, userTurnsOf } from "./adapter.ts";
import { createFinishReader, type Finish } from "./finish-words.ts";

/** Gemini rejects zero. */
const LOWEST_TEMPERATURE = 0.001;

/**
 * Gemini. Every event of a stream is a complete response object. There is no closing frame: the end
 * of the body ends the reply.
 */
export const googleAdapter: Adapter = {
  path: ({ model, isStream }) => ({
    version: "v1beta",
    isVersionInBase: false,
    resource: `${resourceOf(model.upstream)}:${isStream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
  }),
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
    const { candidates, promptFeedback, usageMetadata } = document as GenerateContentResponse;
    const candidate = candidates?.find((each) => (each?.index ?? 0) === 0);
    const { text, isThinking, hasOther } = readParts(candidate?.content);
    return {
      text,
      usage: usageMetadata && {
        inputTokens: usageMetadata.promptTokenCount,
        // Counts that are zero are omitted.
        outputTokens: usageMetadata.candidatesTokenCount ?? 0,
        reasoningTokens: usageMetadata.thoughtsTokenCount,
      },
      active: isThinking,
      finish: blockOf(promptFeedback?.blockReason) ?? finishOf(candidate?.finishReason),
      skipped: hasOther, // a tool call has the reason STOP
    };
  },
};

/**
 * Resource of a model. Names with a slash contain the collection, such as `tunedModels/my-model`.
 */
function resourceOf(name: string): string {
  const path = name.split("/").map(encodeURIComponent).join("/");
  return name.includes("/") ? path : `models/${path}`;
}

const finishOf = createFinishReader({
  good: ["STOP"],
  limits: ["MAX_TOKENS"],
  filters: [
    ...["SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"],
    ...["MODEL_ARMOR", "JAILBREAK"],
    ...["IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"],
  ],
});

/** Any reason means that the prompt was blocked. */
const blockOf = (reason: unknown): Finish | undefined =>
  finishOf(reason) && { failure: "blocked the content" };

/**
 * Reads the parts of a candidate's content: text, thoughts and others.
 * @throws TypeError for a value that is not content
 */
function readParts(content: Content | undefined) {
  let text = "";
  let isThinking = false;
  let hasOther = false;
  if (typeof content === "string") throw new TypeError("Content has parts.");
  for (const part of content?.parts ?? []) {
    const partText = textOfPart(part);
    if (part.thought) isThinking = true;
    else if (partText !== undefined) text += partText;
    else if (!isSignature(part)) hasOther = true;
  }
  return { text, isThinking, hasOther };
}

const isSignature = (part: Part) => Object.keys(part).every((key) => key === "thoughtSignature");
