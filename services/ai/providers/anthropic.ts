import type { Anthropic } from "@anthropic-ai/sdk";
import type { Adapter, ParsedEvent } from "./adapter.ts";
import { finishReasonOf, outputTokensOf, requireText, systemTextOf, temperatureOf, userTurnsOf } from "./provider.ts";

/** The current version of the API refuses any temperature. The one before accepts them. */
const VERSION = "2026-10-21";
const VERSION_WITH_TEMPERATURE = "2023-06-01";

type Counts = {
  input_tokens?: number | null;
  output_tokens?: number | null;
  cache_creation_input_tokens?: number | null;
  cache_read_input_tokens?: number | null;
};
type Block = { type?: string; text?: string; thinking?: string };
/** An event of a stream or, of the type `message`, a complete reply. */
type Event = {
  type?: string;
  message?: { usage?: Counts | null };
  content_block: Block;
  delta?: { type?: string; text?: string; thinking?: string; stop_reason?: string | null };
  usage?: Counts | null;
  content?: Block[];
  stop_reason?: string | null;
};

/** Anthropic's messages API. */
export const anthropicAdapter: Adapter = {
  path: () => "v1/messages",
  headers: (key, prompt) => ({
    authorization: `Bearer ${key}`,
    "anthropic-version": temperatureOf(prompt) === undefined ? VERSION : VERSION_WITH_TEMPERATURE,
  }),
  body(prompt) {
    const system = systemTextOf(prompt);
    const body: Anthropic.MessageCreateParams = {
      model: prompt.model.upstream,
      max_tokens: outputTokensOf(prompt) ?? prompt.model.outputTokens,
      messages: userTurnsOf(prompt),
      ...(system && { system }),
      stream: prompt.isStream,
    };
    return { ...body, temperature: temperatureOf(prompt) };
  },
  /** Unknown kinds of events, blocks and deltas are to be ignored. */
  parse(document) {
    const { type, message, content_block: block, delta, usage, content, stop_reason } = document as Event;
    switch (type) {
      case "message_start":
        return { usage: countsOf({ ...message?.usage, output_tokens: null }) }; // its output count is a placeholder
      case "content_block_start":
        return { text: textOf(block), active: Boolean(block.thinking) };
      case "content_block_delta":
        return { text: delta?.type === "text_delta" ? requireText(delta.text) : "", active: Boolean(delta?.thinking) };
      case "message_delta":
        return { ...parseStopReason(delta?.stop_reason), usage: countsOf(usage) };
      case "message_stop":
        return { finished: "stop", over: true };
      case "message":
        return { text: content?.map(textOf).join(""), ...parseStopReason(stop_reason), usage: countsOf(usage) };
      default:
        return {};
    }
  },
};

const textOf = (block: Block) => (block.type === "text" ? requireText(block.text) : "");

const parseStopReason = (reason: string | null | undefined): ParsedEvent => ({
  finished: finishReasonOf(reason, ["max_tokens", "model_context_window_exceeded"]),
  callsTool: reason === "tool_use",
  failed: reason === "refusal" ? "blocked the content" : undefined,
});

const countsOf = (usage: Counts | null | undefined): ParsedEvent["usage"] => ({
  inputTokens: usage?.input_tokens,
  cacheWriteTokens: usage?.cache_creation_input_tokens,
  cacheReadTokens: usage?.cache_read_input_tokens,
  outputTokens: usage?.output_tokens,
});
