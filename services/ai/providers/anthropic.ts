import type { Anthropic } from "@anthropic-ai/sdk";
import {
  type Adapter,
  argumentsOf,
  type FittedPrompt,
  joinedText,
  onlyTextOf,
  type ParsedEvent,
  requireList,
  requireText,
  type Turn,
  userTurnsOf,
} from "./adapter.ts";
import { acceptedId } from "./call-ids.ts";
import { createFinishReader, isToolCallWord } from "./finish-words.ts";
import type { PromptPart, PromptToolCall, ReasoningEffort } from "./provider.ts";
import type { UsageCounts } from "./token-counts.ts";

/** The current version of the API rejects any temperature. The previous one accepts it. */
const VERSION = "2026-10-21";
const VERSION_WITH_TEMPERATURE = "2023-06-01";

/** An event of a stream, or a complete reply. */
type Event = Anthropic.RawMessageStreamEvent | Anthropic.Message;
type Block = Anthropic.ContentBlock | Anthropic.RawContentBlockDelta;
/** Counts of a message or of the end of a stream. */
type Counts = Partial<Pick<Anthropic.Usage, "cache_creation"> & Anthropic.MessageDeltaUsage> | null;
type Blocks = Exclude<Anthropic.MessageParam["content"], string>;
type SentMessage = { role: "user" | "assistant"; content: string | Blocks };

/** Anthropic's messages API. */
export const anthropicAdapter: Adapter = {
  path: () => ({ version: "v1", isVersionInBase: false, resource: "messages" }),
  headers: (key, prompt) => ({
    authorization: `Bearer ${key}`,
    "anthropic-version": isSampled(prompt) ? VERSION_WITH_TEMPERATURE : VERSION,
  }),
  body(prompt) {
    const { model, isStream, system, outputTokens = model.outputTokens, temperature } = prompt;
    return {
      model: model.upstream,
      max_tokens: outputTokens,
      messages: messagesOf(prompt),
      ...(system && { system }),
      stream: isStream,
      temperature,
      top_p: prompt.topP,
      stop_sequences: prompt.stop?.length ? prompt.stop : undefined,
      ...toolsOf(prompt),
      ...thinkingOf(prompt),
    };
  },
  /** Ignores unknown kinds of events, blocks and deltas, as the API requires. */
  parse(document) {
    const event = document as Event;
    switch (event.type) {
      case "message_start":
        return {
          ...readBlocks(event.message?.content ?? []), // empty but for some servers
          usage: { ...countsOf(event.message?.usage), outputTokens: undefined }, // a placeholder
          opening: true,
        };
      case "content_block_start":
        return parseBlock({ text: "", ...event.content_block } as Block, event.index);
      case "content_block_delta":
        return parseBlock(event.delta, event.index);
      case "message_delta":
        return { ...finishIn(event.delta?.stop_reason), usage: countsOf(event.usage) };
      case "message_stop":
        return { over: true };
      case "message":
        return {
          ...readBlocks(event.content),
          ...finishIn(event.stop_reason),
          usage: countsOf(event.usage),
          whole: Boolean(event.stop_reason), // without a reason it may be cut off
        };
      default:
        return parseUnknown(event);
    }
  },
};

/**
 * Parses an event of an unknown type.
 * @throws TypeError for content without a type, which would be left out
 */
function parseUnknown(event: { type?: unknown }): ParsedEvent {
  if (typeof event.type === "string") return {};
  if ("delta" in event || "content_block" in event) throw new TypeError("An event has a type.");
  return { foreign: true };
}

/**
 * Reads the content blocks of a message.
 * @throws TypeError for what is no list of them
 */
function readBlocks(content: readonly Block[] | null): ParsedEvent {
  if (!content) throw new TypeError("A message has content.");
  const blocks = requireList(content).map(parseBlock);
  return {
    text: blocks.map(({ text }) => text).join(""),
    reasoning: blocks.map(({ reasoning }) => reasoning).join(""),
    toolCalls: blocks
      .flatMap(({ toolCalls }) => toolCalls ?? [])
      .map((call) => ({ ...call, arguments: call.input })),
    skipped: blocks.some(({ skipped }) => skipped),
  };
}

/**
 * Parses a content block or a delta of one.
 * @param index which block of the reply it is
 * @throws TypeError for what is no block
 */
function parseBlock(block: Block, index: number): ParsedEvent {
  if (typeof block.type !== "string") throw new TypeError("A block has a type.");
  if (block.type === "text" || block.type === "text_delta") {
    if (block.text === undefined) throw new TypeError("The block has no text.");
    return { text: requireText(block.text) };
  }
  if (block.type === "tool_use") {
    const { id, name, input } = block;
    return { text: "", toolCalls: [{ key: index, id, name, input }] };
  }
  if (block.type === "input_json_delta")
    return { text: "", toolCalls: [{ key: index, arguments: block.partial_json }] };
  const isThought = "thinking" in block;
  return {
    text: "",
    active: isThought && block.thinking !== "",
    reasoning: isThought ? requireText(block.thinking) : "",
    skipped: !isThought && !WITHOUT_CONTENT.has(block.type),
  };
}

/** Blocks and deltas that accompany text or reasoning. */
const WITHOUT_CONTENT: ReadonlySet<Block["type"]> = new Set([
  "redacted_thinking",
  "signature_delta",
  "citations_delta",
] as const);

/** `pause_turn` is missing: the model has not finished. */
const finishOf = createFinishReader({
  good: ["end_turn", "stop_sequence", "tool_use"],
  limits: ["model_context_window_exceeded"],
  filters: ["refusal", "sensitive"],
});

const finishIn = (reason: unknown) => ({
  finish: finishOf(reason),
  endsWithToolCall: isToolCallWord(reason),
});

const countsOf = (usage: Counts | undefined): UsageCounts => ({
  inputTokens: usage?.input_tokens,
  cacheWriteTokens: usage?.cache_creation_input_tokens,
  cacheReadTokens: usage?.cache_read_input_tokens,
  cacheWrite1h: usage?.cache_creation?.ephemeral_1h_input_tokens,
  outputTokens: usage?.output_tokens,
  includedReasoning: usage?.output_tokens_details?.thinking_tokens,
});

/** Whether a prompt sets what the current version of the API rejects. */
const isSampled = ({ temperature, topP }: FittedPrompt) =>
  temperature !== undefined || topP !== undefined;

/** The turns as messages, which alternate: the results of tool calls are part of the user's. */
function messagesOf(prompt: FittedPrompt): SentMessage[] {
  const messages: SentMessage[] = [];
  for (const message of userTurnsOf(prompt).map(messageOf)) {
    const last = messages.at(-1);
    if (last?.role !== message.role) messages.push(message);
    else last.content = [...blocksOf(last), ...blocksOf(message)];
  }
  return messages;
}

const blocksOf = ({ content }: SentMessage): Blocks =>
  typeof content === "string" ? [{ type: "text", text: content }] : content;

function messageOf({ role, parts, toolCalls = [], resultOf }: Turn): SentMessage {
  if (resultOf) {
    const content = joinedText({ parts });
    const result = { type: "tool_result" as const, tool_use_id: idOf(resultOf), content };
    return { role: "user", content: [result] };
  }
  const only = toolCalls.length === 0 ? onlyTextOf(parts) : undefined;
  const calls = toolCalls.map((call) => ({
    type: "tool_use" as const,
    id: idOf(call),
    name: call.name,
    input: argumentsOf(call),
  }));
  const content = only ?? [...parts.map(blockOf), ...calls];
  return { role: role === "assistant" ? role : "user", content };
}

const idOf = ({ id }: PromptToolCall) => acceptedId(id, /^[A-Za-z0-9_-]{1,64}$/, 24);

function blockOf(part: PromptPart): Anthropic.TextBlockParam | Anthropic.ImageBlockParam {
  if ("text" in part) return { type: "text", text: part.text };
  const { url, data, mediaType } = part.image;
  const type = mediaType as Anthropic.Base64ImageSource["media_type"];
  return {
    type: "image",
    source: url ? { type: "url", url } : { type: "base64", media_type: type, data },
  };
}

function toolsOf({ tools, toolChoice, parallelToolCalls }: FittedPrompt) {
  if (!tools?.length) return {};
  const isSingle = parallelToolCalls === false;
  const choice = toolChoice ?? (isSingle ? { mode: "auto" as const, name: "" } : undefined);
  const single = isSingle && choice?.mode !== "none" ? { disable_parallel_tool_use: true } : {};
  return {
    tools: tools.map(({ name, description, parameters, strict }) => ({
      name,
      description,
      input_schema: parameters ?? { type: "object", properties: {} },
      strict,
    })),
    tool_choice: choice && { ...choiceOf(choice), ...single },
  };
}

function choiceOf({ mode, name }: NonNullable<FittedPrompt["toolChoice"]>) {
  if (mode === "function") return { type: "tool", name };
  return { type: mode === "required" ? "any" : mode };
}

/** Reasoning and the form of the reply. */
function thinkingOf({ reasoningEffort, format }: FittedPrompt) {
  const effort = reasoningEffort && EFFORTS[reasoningEffort];
  const config = {
    ...(effort && { effort }),
    ...(format?.type === "json_schema" && {
      format: { type: "json_schema", schema: format.schema },
    }),
  };
  return {
    thinking: reasoningEffort && { type: effort ? "adaptive" : "disabled" },
    output_config: Object.keys(config).length > 0 ? config : undefined,
  };
}

/** Absent: no reasoning. */
const EFFORTS: { [effort in ReasoningEffort]?: string } = {
  low: "low",
  medium: "medium",
  high: "high",
  xhigh: "xhigh",
  max: "max",
};
