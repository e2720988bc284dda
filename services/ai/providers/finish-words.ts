import { classifyError, type ProviderErrorKind } from "./errors.ts";
import type { FinishReason } from "./provider.ts";

/** Meaning of a finish marker: why the reply has ended, or how it has failed. */
export type Finish = { reason: FinishReason } | { failure: ProviderErrorKind };

/** Finish reasons of a dialect. Any other word is a failure. */
type FinishWords = {
  /** The reply is complete. */
  good: readonly string[];
  /** The maximum number of tokens was reached. */
  limits: readonly string[];
  /** A filter has blocked the rest of the reply. */
  filters: readonly string[];
};

/**
 * How protobuf names an absent enum value, DashScope a missing reason, Python None, and watsonx a
 * reply that continues.
 */
const ABSENT = /^$|^null$|^none$|^notfinished$|unspecified$/;
/** The name of the enum before its value, as in `FinishReason.STOP` of Python. */
const ENUM = /^finishreason\.?(?=.)/;

/** Words of OpenAI, which proxies also put into replies of other dialects. */
const COMMON: FinishWords = {
  good: ["stop"],
  limits: ["length", "max_tokens", "max_output_tokens"],
  filters: ["content_filter"],
};

/** Finish reasons of tool calls, in all dialects that have one. */
const TOOL_CALLS: ReadonlySet<string> = new Set(
  ["tool_calls", "tool_call", "tool_use", "function_call"].map(normalize),
);

/**
 * Creates a function that reads the finish reasons of a dialect. Letter case, `-`, `_` and spaces
 * are ignored, since proxies spell the words of one provider in the style of another.
 * @param own the words of the dialect, in addition to those of OpenAI
 * @returns a function from the received reason, of any type, to its meaning; undefined if absent
 */
export function createFinishReader(own: FinishWords) {
  const known = new Map<string, Finish>();
  const add = (words: readonly string[], finish: Finish) => {
    for (const word of words) known.set(normalize(word), finish);
  };
  for (const { good, limits, filters } of [COMMON, own]) {
    add(good, { reason: "stop" });
    add(limits, { reason: "length" });
    add(filters, { failure: "blocked the content" });
  }
  return (reason: unknown): Finish | undefined => {
    if (reason === undefined || reason === null || reason === 0) return undefined;
    if (typeof reason !== "string") return { failure: "broke off" };
    const word = normalize(reason);
    if (ABSENT.test(word)) return undefined;
    return known.get(word) ?? { failure: classifyError({ type: reason }) };
  };
}

/** Whether a finish reason is that of a tool call. Some servers send "stop" instead. */
export const isToolCallWord = (reason: unknown): boolean =>
  typeof reason === "string" && TOOL_CALLS.has(normalize(reason));

function normalize(word: string): string {
  return word
    .toLowerCase()
    .replace(/[-_\s]/g, "")
    .replace(ENUM, "");
}
