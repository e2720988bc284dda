import { classifyError, type ProviderErrorKind } from "./errors.ts";
import type { FinishReason } from "./provider.ts";

/** What a finish marker says: how the reply has ended, or how it has failed. */
export type Finish = { reason: FinishReason } | { failure: ProviderErrorKind };

/** The words of a dialect that end a reply. Every other word is a failure. */
type FinishWords = {
  /** The reply is complete. */
  good: readonly string[];
  /** The maximum number of tokens was reached. */
  limits: readonly string[];
  /** A filter has blocked the rest of the reply. */
  filters: readonly string[];
};

/** Protobuf's name of an absent enum value, and DashScope's of a missing reason. */
const ABSENT = /^$|^null$|unspecified$/;

/**
 * Makes a function that reads the finish reasons of a dialect. Letter case, `-`, `_` and spaces do
 * not matter, since proxies spell the words of one provider in the manner of another.
 * @returns a function from the reason, of any type, to what it says; undefined if there is none
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
