import type { OpenAI } from "openai";
import {
  type Adapter,
  type FittedPrompt,
  isEmptyObject,
  isFirst,
  joinedText,
  mergeAdjacent,
  onlyTextOf,
  requireList,
  requireText,
  type Turn,
  textOfPart,
  urlOf,
  userTurnsOf,
} from "./adapter.ts";
import { acceptedId } from "./call-ids.ts";
import { classifyError } from "./errors.ts";
import { createFinishReader, isToolCallWord } from "./finish-words.ts";
import type { PromptFormat, PromptPart, PromptTool, PromptToolCall } from "./provider.ts";
import type { UsageCounts } from "./token-counts.ts";
import type { ToolCallPart } from "./tool-calls.ts";

type Delta = OpenAI.ChatCompletionChunk.Choice.Delta;
/** A message of OpenAI with additions of other servers. */
type Message = Omit<Delta, "content" | "tool_calls"> & {
  content?: unknown;
  reasoning_content?: unknown;
  reasoning?: unknown;
  tool_calls?: (CallDelta | null)[] | null;
  usage?: Counts | null;
  error?: unknown;
  finish_reason?: unknown;
  audio?: unknown;
  images?: unknown;
};
/** A tool call or a piece of one. */
type CallDelta = Partial<OpenAI.ChatCompletionChunk.Choice.Delta.ToolCall>;
/** Counts of OpenAI. Other servers count cached input in other fields. */
type Counts = OpenAI.CompletionUsage & {
  cached_tokens?: number;
  prompt_cache_hit_tokens?: number;
  cache_read_input_tokens?: number;
  cache_creation_input_tokens?: number;
};
type Choice = {
  index?: number;
  /** A piece of the message. Some servers send either as text alone. */
  delta?: Message | string | null;
  message?: Message | string | null;
  /** The text of completions before chats, in a whole reply or as a piece. */
  text?: unknown;
  content?: unknown;
  finish_reason?: unknown;
  /** The same, as protobuf writes it in JSON. */
  finishReason?: unknown;
  error?: unknown;
  usage?: Counts | null;
};
type Body = {
  choices?: Choice[];
  usage?: Counts | null;
  /** Groq's own fields. `error`: why the stream has ended early. */
  x_groq?: { usage?: Counts | null; error?: unknown } | null;
  object?: unknown;
  model?: unknown;
  /** MiniMax's own status, which is 0 unless the reply has failed. */
  base_resp?: { status_code?: unknown; status_msg?: unknown } | null;
};

/** Compatible servers also use the words of the providers behind them. */
const finishOf = createFinishReader({
  good: [
    ...["stop_sequence", "end_turn", "eos", "eos_token", "complete", "completed"],
    ...["finish", "finished", "endoftext", "normal"], // of Titan, AI21 and ERNIE
    ...["tool_calls", "tool_call", "tool_use", "function_call"],
  ],
  limits: [
    ...["max_completion_tokens", "max_new_tokens", "token_limit", "max_length", "model_length"],
    ...["max_output", "model_context_window_exceeded", "continuation"],
  ],
  filters: [
    ...["content_filtered", "safety", "sensitive", "refusal", "recitation", "escalation"],
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
    const { choices, usage, x_groq, base_resp } = document as Body;
    // Some servers send several choices although one was requested, each in its own chunks.
    const choice = requireList(choices).find(isFirst);
    const message = messageIn(choice);
    const { content, refusal, reasoning_content, reasoning, tool_calls } = message;
    const { text, thoughts, hasOther } = readContent(content);
    const reason = choice?.finish_reason ?? choice?.finishReason ?? message.finish_reason;
    const isToolCall = isToolCallWord(reason);
    const error = choice?.error ?? message.error ?? x_groq?.error ?? errorOfMiniMax(base_resp);
    // Moonshot, proxies and Groq have them in places of their own.
    const counts = realCountsIn([usage, choice?.usage, message.usage, x_groq?.usage]);
    return {
      text: text + (isEmptyObject(refusal || {}) ? "" : requireText(refusal)),
      usage: counts && countsOf(counts),
      active: Boolean(reasoning_content || reasoning || hasOther),
      reasoning: thoughts || textIn(reasoning_content) || textIn(reasoning),
      toolCalls: requireList(tool_calls).map(callOf),
      finish: finishOf(reason),
      skipped: hasOther === "unknown" || isToolCall || hasUnread(message),
      endsWithToolCall: isToolCall,
      failed: error ? classifyError(error) : undefined,
      whole: Boolean(choice?.message) && message !== choice?.delta,
      foreign: isForeign(document),
    };
  },
  finishesWithDone: true,
};

/** The same in a cloud, whose versions of the API may not know how to turn off the padding. */
export const cloudOpenaiAdapter: Adapter = {
  ...openaiAdapter,
  body: (prompt) => bodyOf(prompt, true, true),
};

/** Chat completions of other providers. */
export const compatibleAdapter: Adapter = {
  ...openaiAdapter,
  body: (prompt) => bodyOf(prompt, false),
};

function bodyOf(prompt: FittedPrompt, isOpenai: boolean, isPadded = !isOpenai): object {
  const { model, isStream, system, outputTokens, temperature } = prompt;
  const reasoningEffort = prompt.reasoningEffort ?? model.reasoningEffort;
  const turns = isOpenai ? prompt.turns : userTurnsOf(prompt);
  /** Requests usage and turns off OpenAI's random padding of every chunk. */
  const streamOptions = { include_usage: true, ...(!isPadded && { include_obfuscation: false }) };
  const messages = mergeAdjacent(turns).map((turn) => messageOf(turn, isOpenai));
  return {
    model: model.upstream,
    messages: system ? [{ role: model.systemRole, content: system }, ...messages] : messages,
    ...(outputTokens !== undefined && { [model.outputTokensField]: outputTokens }),
    ...(temperature !== undefined && { temperature }),
    ...(reasoningEffort && { reasoning_effort: reasoningEffort }),
    ...(isStream && {
      stream: true,
      ...(model.usageOnRequest && { stream_options: streamOptions }),
    }),
    ...optionsOf(prompt, isOpenai),
  };
}

function messageOf({ role, parts, toolCalls, resultOf }: Turn, isOpenai: boolean): object {
  const idOf = ({ id }: PromptToolCall) =>
    isOpenai ? acceptedId(id, /^.{1,40}$/s, 24) : acceptedId(id, /^[A-Za-z0-9]{9}$/, 9);
  if (resultOf) {
    const name = isOpenai ? {} : { name: resultOf.name };
    return { role, tool_call_id: idOf(resultOf), ...name, content: joinedText({ parts }) };
  }
  if (role === "assistant" && toolCalls?.length) {
    const calls = toolCalls.map((call) => ({
      id: idOf(call),
      type: "function",
      function: { name: call.name, arguments: call.arguments || "{}" },
    }));
    return { role, content: joinedText({ parts }) || null, tool_calls: calls };
  }
  return { role, content: contentOf(parts, isOpenai) };
}

/** Other servers may not accept lists without images. */
function contentOf(parts: readonly PromptPart[], isOpenai: boolean): unknown {
  const hasImage = parts.some((part) => "image" in part);
  const only = onlyTextOf(parts) ?? (isOpenai || hasImage ? undefined : joinedText({ parts }));
  return only ?? parts.map((part) => partOf(part, isOpenai));
}

function partOf(part: PromptPart, isOpenai: boolean): object {
  if ("text" in part) return { type: "text", text: part.text };
  const { image } = part;
  const url = urlOf(image);
  const detailed = { url, ...(image.detail && { detail: image.detail }) };
  return { type: "image_url", image_url: isOpenai ? detailed : url };
}

function optionsOf(prompt: FittedPrompt, isOpenai: boolean): object {
  const { model, tools, toolChoice, parallelToolCalls, format, stop, seed } = prompt;
  return {
    top_p: prompt.topP,
    frequency_penalty: prompt.frequencyPenalty,
    presence_penalty: prompt.presencePenalty,
    stop: stop?.length ? stop : undefined,
    [model.seedField]: seed,
    response_format: format && formatOf(format),
    ...(tools?.length && {
      tools: tools.map((tool) => toolOf(tool, isOpenai)),
      tool_choice: toolChoice && choiceOf(toolChoice),
      parallel_tool_calls: parallelToolCalls,
    }),
  };
}

const formatOf = (format: PromptFormat) => {
  if (format.type === "json_object") return { type: "json_object" };
  const { name, description, schema, strict } = format;
  return { type: "json_schema", json_schema: { name, description, schema, strict } };
};

/** Other servers may require parameters. */
const toolOf = ({ name, description, parameters, strict }: PromptTool, isOpenai: boolean) => ({
  type: "function",
  function: {
    name,
    description,
    parameters: parameters ?? (isOpenai ? undefined : { type: "object", properties: {} }),
    strict,
  },
});

const choiceOf = ({ mode, name }: NonNullable<FittedPrompt["toolChoice"]>) =>
  mode === "function" ? { type: "function", function: { name } } : mode;

/** @param position in its list, for servers that count none and for whole messages */
const callOf = (call: CallDelta | null, position: number): ToolCallPart => ({
  key: call?.index ?? position,
  id: call?.id,
  name: call?.function?.name,
  arguments: call?.function?.arguments,
});

const errorOfMiniMax = (status: Body["base_resp"]) =>
  status?.status_code ? { message: status.status_msg } : undefined;

/**
 * Whether a document is not part of a reply. Keep-alives may be empty, or contain only the name of
 * the model.
 */
function isForeign(document: object): boolean {
  const has = (name: string) => Boolean((document as Record<string, unknown>)[name]);
  if (OF_REPLIES.some(has)) return false;
  return OF_ERRORS.some(has) || !(has("object") || has("model") || isEmptyObject(document));
}

const OF_REPLIES = ["choices", "usage", "x_groq"];
const OF_ERRORS = [
  ...["message", "msg", "detail", "code", "errors"],
  ...["error_code", "error_msg", "error_message", "errorMessage"],
];

const textIn = (value: unknown): string => (typeof value === "string" ? value : "");

/**
 * The message of a choice, or the piece of one. An empty piece may have the message next to it, and
 * either may have the text next to it.
 */
function messageIn(choice: Choice | undefined): Message {
  if (!choice) return {};
  const { delta, message, text, content } = choice;
  const isPiece = isMessage(delta) && !(isEmpty(delta) && message);
  const instead = isMessage(delta) ? message : delta || message;
  const given = isPiece ? delta : instead;
  if (!isMessage(given)) return { content: given ?? text ?? content };
  return isEmpty(given) ? { ...given, content: text ?? content ?? given.content } : given;
}

const isMessage = (value: unknown): value is Message =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Whether a message has content that is not read. A reply without any other is unreadable. */
const hasUnread = ({ audio, images, function_call }: Message) =>
  Boolean(audio || function_call) || (Array.isArray(images) && images.length > 0);

/** Whether a piece has no content. */
const isEmpty = ({ content, refusal, reasoning_content, reasoning, tool_calls }: Message) =>
  !(content || refusal || reasoning_content || reasoning || tool_calls);

/**
 * Reads content: a string, an object with a text, or a list of parts, some of which may be
 * reasoning.
 * @returns its text and its reasoning, and which other content it has
 * @throws TypeError for a value that is not content
 */
function readContent(content: unknown): Content {
  if (typeof content === "string") return { text: content, thoughts: "" };
  if (content === undefined || content === null || isEmptyObject(content)) return NO_CONTENT;
  if (!Array.isArray(content))
    return { text: requireText(textOfPart(content) ?? content), thoughts: "" };
  const parts = content.map((part) =>
    isReasoning(part) ? null : (textOfPart(part) ?? refusalIn(part)),
  );
  const text = parts.join(""); // skips null and undefined
  const thoughts = content.map((part) => (isReasoning(part) ? thoughtsIn(part) : "")).join("");
  if (parts.includes(undefined)) return { text, thoughts, hasOther: "unknown" };
  return parts.includes(null) ? { text, thoughts, hasOther: "reasoning" } : { text, thoughts };
}

type Content = { text: string; thoughts: string; hasOther?: "reasoning" | "unknown" };

const NO_CONTENT: Content = { text: "", thoughts: "" };

/** Whether a part is reasoning, as Mistral's reasoning models send it. */
function isReasoning(part: unknown): boolean {
  const type = (part as { type?: unknown } | null)?.type;
  return type === "thinking" || type === "reasoning";
}

const refusalIn = (part: unknown): string | undefined =>
  textIn((part as { refusal?: unknown }).refusal) || undefined;

/** The text of a part that is reasoning, which is in a list of parts or in a field. */
function thoughtsIn({ thinking, text, reasoning }: Record<string, unknown>): string {
  const given = thinking ?? text ?? reasoning;
  if (!Array.isArray(given)) return textIn(given);
  return given.map((part) => textIn((part as { text?: unknown } | null)?.text)).join("");
}

/** The first counts that are not zeros, which proxies put where the provider has none. */
const realCountsIn = (places: readonly (Counts | null | undefined)[]) =>
  places.find((counts) => numberIn(counts?.prompt_tokens) + numberIn(counts?.completion_tokens)) ??
  places.find(Boolean);

/**
 * Reads token counts. The total shows what the two others omit: hidden reasoning (xAI, Gemini), or
 * cached input, which some proxies count separately. What is more than it is part of is separate,
 * too.
 */
function countsOf(counts: Counts): UsageCounts | undefined {
  const { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } = counts;
  if (typeof prompt !== "number" || typeof completion !== "number") return undefined;
  if (prompt < 0 || completion < 0) return undefined; // the total would hide it
  const ofAnthropic =
    numberIn(counts.cache_read_input_tokens) + numberIn(counts.cache_creation_input_tokens);
  const isCacheSeparate = ofAnthropic > prompt;
  const input = isCacheSeparate ? prompt + ofAnthropic : prompt;
  const reasoning = counts.completion_tokens_details?.reasoning_tokens;
  const isReasoningSeparate = numberIn(total) === 0 && numberIn(reasoning) > completion;
  const output = isReasoningSeparate ? completion + numberIn(reasoning) : completion;
  const missing = Math.max(0, numberIn(total) - input - output);
  const included = {
    includedCacheRead: cacheReadIn(counts),
    includedCacheWrite: cacheWriteIn(counts),
    includedReasoning: numberIn(reasoning),
  };
  if (missing === 0) return { inputTokens: input, outputTokens: output, ...included };
  if (missing === reasoning)
    return { inputTokens: input, outputTokens: output + missing, ...included };
  const allCached = included.includedCacheRead + included.includedCacheWrite;
  const cached = isCacheSeparate ? 0 : Math.min(missing, allCached);
  const hidden = Math.min(missing - cached, reasoning || Number.POSITIVE_INFINITY);
  return { inputTokens: input + cached, outputTokens: output + hidden, ...included };
}

/** Input from the cache under any of its names. Some servers report the same count under two. */
const cacheReadIn = (counts: Counts): number =>
  Math.max(
    numberIn(counts.prompt_tokens_details?.cached_tokens),
    numberIn(counts.cached_tokens),
    numberIn(counts.cache_read_input_tokens),
    numberIn(counts.prompt_cache_hit_tokens), // DeepSeek
  );

/** Input written into the cache, under the name of OpenAI or of proxies before Anthropic. */
const cacheWriteIn = (counts: Counts): number =>
  Math.max(
    numberIn(counts.prompt_tokens_details?.cache_write_tokens),
    numberIn(counts.cache_creation_input_tokens),
  );

const numberIn = (value: unknown) => (typeof value === "number" && value > 0 ? value : 0);
