import type { OpenAI } from "openai";
import {
  type Adapter,
  type FittedPrompt,
  mergeAdjacent,
  requireText,
  textOfPart,
  userTurnsOf,
} from "./adapter.ts";
import { classifyError } from "./errors.ts";
import { createFinishReader } from "./finish-words.ts";
import type { UsageCounts } from "./token-counts.ts";

type Delta = OpenAI.ChatCompletionChunk.Choice.Delta;
/** Other servers add to the messages of OpenAI. */
type Message = Omit<Delta, "content"> & {
  content?: unknown;
  reasoning_content?: string;
  reasoning?: string;
};
/** OpenAI's counts. Other servers count cached input elsewhere. */
type Counts = OpenAI.CompletionUsage & {
  cached_tokens?: number;
  cache_read_input_tokens?: number;
  cache_creation_input_tokens?: number;
};
type Choice = {
  index?: number;
  delta?: Message;
  message?: Message;
  finish_reason?: unknown;
  error?: unknown;
  usage?: Counts | null;
};
type Body = {
  choices?: Choice[];
  usage?: Counts | null;
  x_groq?: { usage?: Counts | null } | null;
};

/** Compatible servers use words of the providers they stand for. */
const finishOf = createFinishReader({
  good: [
    ...["stop", "stop_sequence", "end_turn", "eos", "eos_token", "complete", "completed"],
    ...["tool_calls", "tool_call", "tool_use", "function_call"],
  ],
  limits: [
    ...["length", "max_tokens", "max_output_tokens", "max_completion_tokens", "max_new_tokens"],
    ...["max_length", "model_length", "model_context_window_exceeded"],
  ],
  filters: [
    ...["content_filter", "content_filtered", "safety", "sensitive", "refusal", "recitation"],
    ...["prohibited_content", "blocklist", "spii", "model_armor", "guardrail_intervened"],
    ...["error_toxic"],
  ],
});

/** Chat completions of OpenAI. */
export const openaiAdapter: Adapter = {
  path: () => ({ version: "v1", isVersionInBase: true, resource: "chat/completions" }),
  headers: (key) => ({ authorization: `Bearer ${key}` }),
  body: (prompt) => bodyOf(prompt, true),
  /** Some servers leave out the finish reason, some the final `[DONE]`. */
  parse(document) {
    const { choices, usage, x_groq } = document as Body;
    // Some servers send several choices though one was requested, each in chunks of its own.
    const choice = choices?.find((each) => (each?.index ?? 0) === 0);
    const { content, refusal, reasoning_content, reasoning, tool_calls } =
      choice?.delta ?? choice?.message ?? {};
    const { text, hasOther } = readContent(content);
    const counts = usage ?? choice?.usage ?? x_groq?.usage; // Moonshot's and Groq's places
    return {
      text: text + requireText(refusal),
      usage: counts && countsOf(counts),
      active: Boolean(reasoning_content || reasoning || hasOther),
      finish: finishOf(choice?.finish_reason),
      skipped:
        hasOther === "unknown" || isToolCall(choice?.finish_reason) || Boolean(tool_calls?.length),
      failed: choice?.error ? classifyError(choice.error) : undefined,
      whole: choice?.message !== undefined && choice.delta === undefined,
    };
  },
  finishesWithDone: true,
};

/** Chat completions of other providers. */
export const compatibleAdapter: Adapter = {
  ...openaiAdapter,
  body: (prompt) => bodyOf(prompt, false),
};

function bodyOf(prompt: FittedPrompt, isOpenai: boolean): OpenAI.ChatCompletionCreateParams {
  const { model, isStream, system, outputTokens, temperature } = prompt;
  const turns = isOpenai ? prompt.turns : userTurnsOf(prompt);
  /** Requests usage, and declines OpenAI's random padding of every chunk. */
  const streamOptions = { include_usage: true, ...(isOpenai && { include_obfuscation: false }) };
  return {
    model: model.upstream,
    messages: mergeAdjacent(
      system ? [{ role: model.systemRole, content: system }, ...turns] : turns,
    ),
    ...(outputTokens !== undefined && { [model.outputTokensField]: outputTokens }),
    ...(temperature !== undefined && { temperature }),
    ...(model.reasoningEffort && { reasoning_effort: model.reasoningEffort }),
    ...(isStream && {
      stream: true,
      ...(model.usageOnRequest && { stream_options: streamOptions }),
    }),
  };
}

/** The reason that comes with a call of a tool. Some servers say "stop". */
const isToolCall = (reason: unknown) => reason === "tool_calls" || reason === "function_call";

/**
 * Reads content: a string, a text in an object, or a list of parts, some of which may be reasoning.
 * @returns its text, and what else it has
 * @throws TypeError if it is anything else
 */
function readContent(content: unknown): { text: string; hasOther?: "reasoning" | "unknown" } {
  if (typeof content === "string") return { text: content };
  if (content === undefined || content === null) return NO_CONTENT;
  if (!Array.isArray(content)) return { text: requireText(textOfPart(content) ?? content) };
  const parts = content.map((part) => (isReasoning(part) ? null : textOfPart(part)));
  const text = parts.join(""); // neither null nor undefined adds to it
  if (parts.includes(undefined)) return { text, hasOther: "unknown" };
  return parts.includes(null) ? { text, hasOther: "reasoning" } : { text };
}

const NO_CONTENT = { text: "" };

/** Mistral's reasoning models send their reasoning as a part. */
function isReasoning(part: unknown): boolean {
  const type = (part as { type?: unknown } | null)?.type;
  return type === "thinking" || type === "reasoning";
}

/**
 * Reads counts. The total tells what the two others leave out: hidden reasoning (xAI, Gemini), or
 * input that a cache held, which some proxies count apart.
 */
function countsOf(counts: Counts): UsageCounts | undefined {
  const { prompt_tokens: input, completion_tokens: output, total_tokens: total } = counts;
  if (typeof input !== "number" || typeof output !== "number") return undefined;
  const missing = Math.max(0, numberIn(total) - input - output);
  if (missing === 0) return { inputTokens: input, outputTokens: output };
  const reasoning = counts.completion_tokens_details?.reasoning_tokens;
  if (missing === reasoning) return { inputTokens: input, outputTokens: output + missing };
  const cached = Math.min(missing, cachedIn(counts));
  const hidden = Math.min(missing - cached, reasoning || Number.POSITIVE_INFINITY);
  return { inputTokens: input + cached, outputTokens: output + hidden };
}

/** Input that a cache held or took, under any of its names: some servers use two for the same. */
function cachedIn(counts: Counts): number {
  const { prompt_tokens_details: details } = counts;
  const read = Math.max(
    numberIn(details?.cached_tokens),
    numberIn(counts.cached_tokens),
    numberIn(counts.cache_read_input_tokens),
  );
  return read + numberIn(counts.cache_creation_input_tokens);
}

const numberIn = (value: unknown) => (typeof value === "number" && value > 0 ? value : 0);
