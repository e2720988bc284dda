import type {
  Content,
  GenerateContentResponse,
  GenerateContentResponseUsageMetadata,
  Part,
} from "@google/genai";
import {
  type Adapter,
  argumentsOf,
  type FittedPrompt,
  isFirst,
  joinedText,
  requireList,
  type Turn,
  textOfPart,
  userTurnsOf,
} from "./adapter.ts";
import { createFinishReader, type Finish } from "./finish-words.ts";
import type { PromptPart, ReasoningEffort } from "./provider.ts";
import type { ToolCallPart } from "./tool-calls.ts";

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
      contents: contentsOf(prompt),
      systemInstruction: system ? { parts: [{ text: system }] } : undefined,
      generationConfig: {
        maxOutputTokens: outputTokens,
        temperature: temperature === 0 ? LOWEST_TEMPERATURE : temperature,
        topP: prompt.topP,
        stopSequences: prompt.stop?.length ? prompt.stop : undefined,
        seed: prompt.seed,
        frequencyPenalty: prompt.frequencyPenalty,
        presencePenalty: prompt.presencePenalty,
        ...formatOf(prompt),
        thinkingConfig: thinkingOf(prompt),
      },
      ...toolsOf(prompt),
    };
  },
  parse(document) {
    const { candidates, promptFeedback, usageMetadata } = document as GenerateContentResponse;
    const candidate = requireList(candidates).find(isFirst);
    const { text, reasoning, toolCalls, isThinking, hasOther } = readParts(candidate?.content);
    return {
      text,
      reasoning,
      toolCalls,
      usage: usageMetadata && {
        inputTokens: inputIn(usageMetadata),
        includedCacheRead: usageMetadata.cachedContentTokenCount,
        // Counts that are zero are omitted.
        outputTokens: usageMetadata.candidatesTokenCount ?? 0,
        reasoningTokens: usageMetadata.thoughtsTokenCount,
        totalTokens: usageMetadata.totalTokenCount,
      },
      active: isThinking,
      finish: blockOf(promptFeedback?.blockReason) ?? finishIn(candidate?.finishReason),
      skipped: hasOther,
    };
  },
};

/**
 * Resource of a model. Names with a slash contain the collection, such as `tunedModels/my-model`.
 */
export function resourceOf(name: string): string {
  const path = name.split("/").map(encodeURIComponent).join("/");
  return name.includes("/") ? path : `models/${path}`;
}

const finishOf = createFinishReader({
  good: ["STOP"],
  limits: ["MAX_TOKENS", "CONTINUATION"],
  filters: [
    ...["SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"],
    ...["MODEL_ARMOR", "JAILBREAK", "ESCALATION"],
    ...["IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"],
  ],
});

/**
 * Finish reasons by their numbers in protobuf, which some servers send. Those of Vertex differ from
 * the sixth on.
 */
const BY_NUMBER = ["FINISH_REASON_UNSPECIFIED", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION"];

const finishIn = (reason: unknown): Finish | undefined =>
  finishOf(typeof reason === "number" ? (BY_NUMBER[reason] ?? reason) : reason);

/** Any reason means that the prompt was blocked. */
const blockOf = (reason: unknown): Finish | undefined =>
  finishOf(reason) && { failure: "blocked the content" };

/** Input tokens. Those of tool results are counted separately. */
function inputIn(counts: GenerateContentResponseUsageMetadata): number | undefined {
  const { promptTokenCount, toolUsePromptTokenCount } = counts;
  return promptTokenCount && toolUsePromptTokenCount
    ? promptTokenCount + toolUsePromptTokenCount
    : promptTokenCount;
}

/**
 * Reads the parts of a candidate's content: text, thoughts, tool calls and others.
 * @throws TypeError for a value that is not content
 */
function readParts(content: Content | undefined) {
  let text = "";
  let reasoning = "";
  let isThinking = false;
  let hasOther = false;
  const toolCalls: ToolCallPart[] = [];
  for (const part of partsIn(content)) {
    const partText = textOfPart(part);
    if (part.thought) {
      isThinking = true;
      reasoning += partText ?? "";
    } else if (partText !== undefined) text += partText;
    else if (part.functionCall) toolCalls.push(callOf(part));
    else if (!isSignature(part)) hasOther = true;
  }
  return { text, reasoning, toolCalls, isThinking, hasOther };
}

/** The parts of content. Some proxies send a list of them, or one part, in its place. */
function partsIn(content: Content | Part[] | Part | undefined): readonly Part[] {
  if (content === undefined || content === null) return [];
  if (typeof content !== "object") throw new TypeError("Content has parts.");
  if (Array.isArray(content)) return content;
  if ("text" in content) return [content];
  return requireList((content as Content).parts);
}

const callOf = ({ functionCall, thoughtSignature }: Part): ToolCallPart => ({
  name: functionCall?.name,
  arguments: functionCall?.args ?? {},
  signature: thoughtSignature,
});

const isSignature = (part: Part) => Object.keys(part).every((key) => key === "thoughtSignature");

/** The turns as contents, which alternate: the results of tool calls are part of the user's. */
function contentsOf(prompt: FittedPrompt) {
  const contents: { role: string; parts: object[] }[] = [];
  for (const turn of userTurnsOf(prompt)) {
    const role = turn.role === "assistant" ? "model" : "user";
    const last = contents.at(-1);
    if (last?.role === role) last.parts.push(...partsOf(turn));
    else contents.push({ role, parts: partsOf(turn) });
  }
  return contents;
}

function partsOf({ parts, toolCalls = [], resultOf }: Turn): object[] {
  if (resultOf) {
    const { id, name } = resultOf;
    return [{ functionResponse: { id, name, response: { result: joinedText({ parts }) } } }];
  }
  const calls = toolCalls.map((call) => ({
    functionCall: { id: call.id, name: call.name, args: argumentsOf(call) },
    ...(call.signature && { thoughtSignature: call.signature }),
  }));
  return [...parts.map(partOf), ...calls];
}

const partOf = (part: PromptPart) =>
  "text" in part
    ? { text: part.text }
    : { inlineData: { mimeType: part.image.mediaType, data: part.image.data } };

function toolsOf({ tools, toolChoice }: FittedPrompt) {
  if (!tools?.length) return {};
  const functionDeclarations = tools.map(({ name, description, parameters }) => ({
    name,
    description,
    parametersJsonSchema: parameters,
  }));
  return {
    tools: [{ functionDeclarations }],
    toolConfig: toolChoice && {
      functionCallingConfig: {
        mode: MODES[toolChoice.mode],
        allowedFunctionNames: toolChoice.mode === "function" ? [toolChoice.name] : undefined,
      },
    },
  };
}

const MODES = { none: "NONE", auto: "AUTO", required: "ANY", function: "ANY" };

const formatOf = ({ format }: FittedPrompt) =>
  format && {
    responseMimeType: "application/json",
    responseJsonSchema: format.type === "json_schema" ? format.schema : undefined,
  };

const thinkingOf = ({ reasoningEffort }: FittedPrompt) =>
  reasoningEffort && { thinkingLevel: LEVELS[reasoningEffort], includeThoughts: true };

const LEVELS: Record<ReasoningEffort, string> = {
  none: "MINIMAL",
  minimal: "MINIMAL",
  low: "LOW",
  medium: "MEDIUM",
  high: "HIGH",
  xhigh: "HIGH",
  max: "HIGH",
};
