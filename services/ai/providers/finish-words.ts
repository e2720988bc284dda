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

/** How protobuf names an absent enum value, and DashScope a missing reason. */
const ABSENT = /^$|^null$|unspecified$/;

/**
 * Creates a function that reads the finish reasons of a dialect. Letter case, `-`, `_` and spaces
 * are ignored, since proxies spell the words of one provider in the style of another.
 * @returns a function from the received reason, of any type, to its meaning; undefined if absent
 */
export function createFinishReader({ good, limits, filters }: FinishWords) {
  const known = new Map<string, Finish>();
  const add = (words: readonly string[], finish: Finish) => {
    for (const word of words) known.set(normalize(word), finish);
  };
  add(good, { reason: "stop" });
  add(limits, { reason: "length" });
  add(filters, { failure: "blocked the content" });
  return (reason: unknown): Finish | undefined => {
    if (reason === undefined || reason === null || reason === 0) return undefined;
    if (typeof reason !== "string") return { failure: "broke off" };
    const word = normalize(reason);
    if (ABSENT.test(word)) return undefined;
    return known.get(word) ?? { failure: classifyError({ type: reason }) };
  };
}

const normalize = (word: string) => word.toLowerCase().replace(/[-_\s]/g, "");
