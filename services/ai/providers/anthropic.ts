import type { Anthropic } from "@anthropic-ai/sdk";
import { type Adapter, type ParsedEvent, requireText, userTurnsOf } from "./adapter.ts";
import { createFinishReader } from "./finish-words.ts";
import type { UsageCounts } from "./token-counts.ts";

/** The current version of the API rejects any temperature. The previous one accepts it. */
const VERSION = "2026-10-21";
const VERSION_WITH_TEMPERATURE = "2023-06-01";

/** An event of a stream, or a complete reply. */
type Event = Anthropic.RawMessageStreamEvent | Anthropic.Message;
type Block = Anthropic.ContentBlock | Anthropic.RawContentBlockDelta;
type Counts = Partial<Anthropic.MessageDeltaUsage> | null;

/** Anthropic's messages API. */
export const anthropicAdapter: Adapter = {
  path: () => ({ version: "v1", isVersionInBase: false, resource: "messages" }),
  headers: (key, { temperature }) => ({
    authorization: `Bearer ${key}`,
    "anthropic-version": temperature === undefined ? VERSION : VERSION_WITH_TEMPERATURE,
  }),
  body(prompt) {
    const { model, isStream, system, outputTokens = model.outputTokens, temperature } = prompt;
    const body: Anthropic.MessageCreateParams = {
      model: model.upstream,
      max_tokens: outputTokens,
      messages: userTurnsOf(prompt),
      ...(system && { system }),
      stream: isStream,
    };
    return { ...body, temperature };
  },
  /** Ignores unknown kinds of events, blocks and deltas, as the API requires. */
  parse(document) {
    const event = document as Event;
    switch (event.type) {
      case "message_start":
        return { usage: { ...countsOf(event.message?.usage), outputTokens: undefined } }; // a placeholder
      case "content_block_start":
        return parseBlock(event.content_block);
      case "content_block_delta":
        return parseBlock(event.delta);
      case "message_delta":
        return { finish: finishOf(event.delta?.stop_reason), usage: countsOf(event.usage) };
      case "message_stop":
        return { over: true };
      case "message": {
        const blocks = event.content.map(parseBlock);
        return {
          text: blocks.map(({ text }) => text).join(""),
          skipped: blocks.some(({ skipped }) => skipped),
          finish: finishOf(event.stop_reason),
          usage: countsOf(event.usage),
          whole: Boolean(event.stop_reason), // without a reason it may be cut off
        };
      }
      default:
        return {};
    }
  },
};

/** Parses a content block or a delta of one. */
function parseBlock(block: Block): ParsedEvent {
  if (block.type === "text" || block.type === "text_delta")
    return { text: requireText(block.text) };
  const isThought = "thinking" in block;
  return {
    text: "",
    active: isThought && block.thinking !== "",
    skipped: !isThought && !WITHOUT_CONTENT.has(block.type),
  };
}

/** Blocks and deltas that accompany text or reasoning. */
const WITHOUT_CONTENT: ReadonlySet<Block["type"]> = new Set([
  "redacted_thinking",
  "signature_delta",
  "citations_delta",
] as const);

/** `pause_turn` is missing: the model has not finished. Compatible servers also send "stop". */
const finishOf = createFinishReader({
  good: ["end_turn", "stop_sequence", "tool_use", "stop"],
  limits: ["max_tokens", "model_context_window_exceeded", "length"],
  filters: ["refusal", "content_filter", "sensitive"],
});

const countsOf = (usage: Counts | undefined): UsageCounts => ({
  inputTokens: usage?.input_tokens,
  cacheWriteTokens: usage?.cache_creation_input_tokens,
  cacheReadTokens: usage?.cache_read_input_tokens,
  outputTokens: usage?.output_tokens,
});
