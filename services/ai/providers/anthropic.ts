import type { Anthropic } from "@anthropic-ai/sdk";
import {
  type Adapter,
  finishReasonOf,
  type ParsedEvent,
  requireText,
  type UsageCounts,
  userTurnsOf,
} from "./adapter.ts";

/** The current version of the API refuses any temperature. The one before accepts them. */
const VERSION = "2026-10-21";
const VERSION_WITH_TEMPERATURE = "2023-06-01";

/** An event of a stream, or a complete reply. */
type Event = Anthropic.RawMessageStreamEvent | Anthropic.Message;
type Block = Anthropic.ContentBlock | Anthropic.RawContentBlockDelta;
type Counts = Partial<Anthropic.MessageDeltaUsage> | null;

/** Anthropic's messages API. */
export const anthropicAdapter: Adapter = {
  path: () => "v1/messages",
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
  /** Unknown kinds of events, blocks and deltas are to be ignored. */
  parse(document) {
    const event = document as Event;
    switch (event.type) {
      case "message_start":
        return { usage: { ...countsOf(event.message?.usage), outputTokens: undefined } }; // it is a placeholder
      case "content_block_start":
        return parseBlock(event.content_block);
      case "content_block_delta":
        return parseBlock(event.delta);
      case "message_delta":
        return { ...parseStopReason(event.delta?.stop_reason), usage: countsOf(event.usage) };
      case "message_stop":
        return { finished: "stop", over: true };
      case "message": {
        const text = event.content?.map((block) => parseBlock(block).text).join("");
        return { text, ...parseStopReason(event.stop_reason), usage: countsOf(event.usage) };
      }
      default:
        return {};
    }
  },
};

/** Parses a block, or a piece of one. */
const parseBlock = (block: Block): ParsedEvent => ({
  text: block.type === "text" || block.type === "text_delta" ? requireText(block.text) : "",
  active: "thinking" in block && block.thinking !== "",
});

const parseStopReason = (reason: string | null | undefined): ParsedEvent => ({
  finished: finishReasonOf(reason, ["max_tokens", "model_context_window_exceeded"]),
  callsTool: reason === "tool_use",
  failed: reason === "refusal" ? "blocked the content" : undefined,
});

const countsOf = (usage: Counts | undefined): UsageCounts => ({
  inputTokens: usage?.input_tokens,
  cacheWriteTokens: usage?.cache_creation_input_tokens,
  cacheReadTokens: usage?.cache_read_input_tokens,
  outputTokens: usage?.output_tokens,
});
