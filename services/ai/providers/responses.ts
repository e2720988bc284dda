import type { OpenAI } from "openai";
import { type ParsedEvent, type ReplyParser, requireText } from "./adapter.ts";
import { classifyError } from "./errors.ts";
import type { UsageCounts } from "./token-counts.ts";
import type { ToolCallPart } from "./tool-calls.ts";

type Event = OpenAI.Responses.ResponseStreamEvent;
type Response = OpenAI.Responses.Response;
type Item = OpenAI.Responses.ResponseOutputItem;

/**
 * An event that ends a stream has the whole response, which may be as long as all events before it.
 */
const EVENT_CHARACTERS = 8 * 1024 * 1024;

/** Reads replies of OpenAI's Responses API, which are passed on and never translated. */
export const responsesParser: ReplyParser = {
  maxEventCharacters: EVENT_CHARACTERS,
  /** Ignores unknown kinds of events and items. */
  parse(document) {
    const event = document as Event | Response;
    return "object" in event && event.object === "response"
      ? { ...parseEnd(event), ...contentOf(event.output), whole: !event.status || isOver(event) }
      : parseEvent(event as Event);
  },
};

function parseEvent(event: Event): ParsedEvent {
  switch (event.type) {
    case "response.output_text.delta":
    case "response.refusal.delta":
    case "response.custom_tool_call_input.delta":
      return { text: requireText(event.delta) };
    case "response.reasoning_text.delta":
    case "response.reasoning_summary_text.delta":
      return { reasoning: requireText(event.delta), active: true };
    case "response.output_item.added":
      return { active: true, toolCalls: callsOf(event.item, event.output_index, "") };
    case "response.function_call_arguments.delta":
      return { toolCalls: [{ key: event.output_index, arguments: event.delta }] };
    case "response.completed":
    case "response.incomplete":
    case "response.failed":
      return { ...parseEnd(event.response, event.type.slice("response.".length)), over: true };
    default:
      return {};
  }
}

const isOver = ({ status }: Response) => status === "completed" || status === "incomplete";

/**
 * What a response says of its end. One that is still in progress has none.
 * @param named the status in the name of its event, which counts as well
 */
function parseEnd(response: Response, named?: string): ParsedEvent {
  const { status, error, incomplete_details, usage } = response;
  const is = (word: string) => status === word || named === word;
  if (is("failed") || is("cancelled")) return { failed: classifyError(error) };
  const counts = usage && countsOf(usage);
  if (is("incomplete")) {
    const isBlocked = incomplete_details?.reason === "content_filter";
    return {
      finish: isBlocked ? { failure: "blocked the content" } : { reason: "length" },
      usage: counts,
    };
  }
  return is("completed") ? { finish: { reason: "stop" }, usage: counts } : { usage: counts };
}

/** The text and the tool calls of a whole response. */
function contentOf(output: readonly Item[]): ParsedEvent {
  const texts = output.flatMap((item) =>
    item.type === "message"
      ? item.content.map((part) => (part.type === "output_text" ? part.text : part.refusal))
      : [],
  );
  const toolCalls = output.flatMap((item, index) =>
    callsOf(item, index, item.type === "function_call" ? item.arguments : ""),
  );
  return { text: texts.join(""), toolCalls };
}

const callsOf = (item: Item, key: number, json: string): ToolCallPart[] =>
  item.type === "function_call"
    ? [{ key, id: item.call_id, name: item.name, arguments: json }]
    : [];

const countsOf = (usage: OpenAI.Responses.ResponseUsage): UsageCounts => ({
  inputTokens: usage.input_tokens,
  includedCacheRead: usage.input_tokens_details?.cached_tokens,
  includedCacheWrite: usage.input_tokens_details?.cache_write_tokens,
  outputTokens: usage.output_tokens,
  includedReasoning: usage.output_tokens_details?.reasoning_tokens,
});
