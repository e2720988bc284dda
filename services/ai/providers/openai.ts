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
/** A message of OpenAI with additions of other servers. */
type Message = Omit<Delta, "content"> & {
  content?: unknown;
  reasoning_content?: string;
  reasoning?: string;
};
/** Counts of OpenAI. Other servers count cached input in other fields. */
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

/** Compatible servers also use the words of the providers behind them. */
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
  /** Some servers omit the finish reason, others the final `[DONE]`. */
  parse(document) {
    const { choices, usage, x_groq } = document as Body;
    // Some servers send several choices although one was requested, each in chunks of its own.
    const choice = choices?.find((each) => (each?.index ?? 0) === 0);
    const { content, refusal, reasoning_content, reasoning, tool_calls } =
      choice?.delta ?? choice?.message ?? {};
    const { text, hasOther } = readContent(content);
    const counts = usage ?? choice?.usage ?? x_groq?.usage; // where Moonshot and Groq put it
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
  /** Requests usage and turns off OpenAI's random padding of every chunk. */
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

/** Whether a finish reason is that of a tool call. Some servers send "stop" instead. */
const isToolCall = (reason: unknown) => reason === "tool_calls" || reason === "function_call";

/**
 * Reads content: a string, an object with a text, or a list of parts, some of which may be
 * reasoning.
 * @returns its text, and which other content it has
 * @throws TypeError for a value that is not content
 */
function readContent(content: unknown): { text: string; hasOther?: "reasoning" | "unknown" } {
  if (typeof content === "string") return { text: content };
  if (content === undefined || content === null) return NO_CONTENT;
  if (!Array.isArray(content)) return { text: requireText(textOfPart(content) ?? content) };
  const parts = content.map((part) => (isReasoning(part) ? null : textOfPart(part)));
  const text = parts.join(""); // skips null and undefined
  if (parts.includes(undefined)) return { text, hasOther: "unknown" };
  return parts.includes(null) ? { text, hasOther: "reasoning" } : { text };
}

const NO_CONTENT = { text: "" };

/** Whether a part is reasoning, as Mistral's reasoning models send it. */
function isReasoning(part: unknown): boolean {
  const type = (part as { type?: unknown } | null)?.type;
  return type === "thinking" || type === "reasoning";
}

/**
 * Reads token counts. The total shows what the two others omit: hidden reasoning (xAI, Gemini), or
 * cached input, which some proxies count separately.
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

/** Cached input under any of its names. Some servers report the same count under two. */
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
