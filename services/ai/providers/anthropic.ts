import type { Anthropic } from "@anthropic-ai/sdk";
import type { Adapter } from "./adapter.ts";
import { finishReasonOf, type ParsedEvent, type ResponseParser, requireText, type UsageCounts } from "./decode.ts";
import { type Endpoint, joinUrl } from "./http-client.ts";
import type { Prompt } from "./provider.ts";
import { outputTokensOf, systemTextOf, temperatureOf, toMessages } from "./provider.ts";

/** The current version of the API refuses any temperature. The one before accepts them. */
const VERSION = "2026-10-21";
const VERSION_WITH_TEMPERATURE = "2023-06-01";

/** Anthropic's messages API. */
export function anthropicAdapter({ baseUrl, key, http }: Endpoint): Adapter {
  const target = joinUrl(baseUrl, "v1/messages");
  return {
    ...anthropicParser,
    send(prompt, stream, signal) {
      const temperature = temperatureOf(prompt);
      const request = { ...requestOf(prompt), ...(temperature !== undefined && { temperature }), stream };
      const version = temperature === undefined ? VERSION : VERSION_WITH_TEMPERATURE;
      return http.post(target, { authorization: `Bearer ${key}`, "anthropic-version": version }, request, signal);
    },
  };
}

function requestOf(prompt: Prompt) {
  const system = systemTextOf(prompt);
  return {
    model: prompt.model.upstream,
    max_tokens: outputTokensOf(prompt) ?? prompt.model.outputTokens,
    messages: toMessages(prompt) as Anthropic.MessageParam[],
    ...(system !== undefined && { system }),
  };
}

type UsageFields = {
  input_tokens?: number | null;
  output_tokens?: number | null;
  cache_creation_input_tokens?: number | null;
  cache_read_input_tokens?: number | null;
};
type Block = { type?: string; text?: string; thinking?: string };
type Event = {
  type?: string;
  message?: { usage?: UsageFields | null };
  content_block: Block;
  delta?: { type?: string; text?: string; thinking?: string; stop_reason?: string | null };
  usage?: UsageFields | null;
};
type Body = { content?: Block[]; stop_reason?: string | null; usage?: UsageFields | null };

/** Events and complete messages. Unknown kinds of events, blocks and deltas are to be ignored. */
export const anthropicParser: ResponseParser = {
  parseEvent(frame) {
    const { type, message, content_block: block, delta, usage } = frame as Event;
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
      default:
        return {};
    }
  },
  parseBody(body) {
    const { content, stop_reason, usage } = body as Body;
    return { text: content?.map(textOf).join(""), ...parseStopReason(stop_reason), usage: countsOf(usage) };
  },
};

const textOf = (block: Block) => (block.type === "text" ? requireText(block.text) : "");

const parseStopReason = (reason: string | null | undefined): ParsedEvent => ({
  finished: finishReasonOf(reason, ["max_tokens", "model_context_window_exceeded"]),
  callsTool: reason === "tool_use",
  failed: reason === "refusal" ? "blocked the content" : undefined,
});

/** A count that is absent or null does not replace the one before. */
function countsOf(usage: UsageFields | null | undefined): UsageCounts {
  const counts = {
    inputTokens: usage?.input_tokens,
    cacheWriteTokens: usage?.cache_creation_input_tokens,
    cacheReadTokens: usage?.cache_read_input_tokens,
    outputTokens: usage?.output_tokens,
  };
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count !== undefined && count !== null));
}
