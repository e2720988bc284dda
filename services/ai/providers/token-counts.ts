import type { Usage } from "./provider.ts";

const NAMES = [
  "inputTokens",
  "cacheWriteTokens",
  "cacheReadTokens",
  "outputTokens",
  "reasoningTokens",
] as const;

/**
 * Token counts as an event reports them. No count contains another: input that was written to or
 * read from a cache, and reasoning, are apart where the provider counts them apart.
 */
export type UsageCounts = { [name in (typeof NAMES)[number]]?: number | null | undefined };

/**
 * The token counts of a reply. Events repeat them, leave some out or set them to zero, while the
 * true ones only grow: the maximum of each counts.
 */
export class TokenCounts {
  readonly #counts: { [name in (typeof NAMES)[number]]?: number } = {};

  /** Adds the counts of one event. */
  add(reported: UsageCounts): void {
    for (const name of NAMES) {
      const count = reported[name];
      if (count === undefined || count === null) continue;
      this.#counts[name] = larger(this.#counts[name], count);
    }
  }

  /**
   * The usage of the reply; undefined unless the provider has reported all of it, and it can be
   * right: a prompt has input, and text is output.
   */
  usage(hasText: boolean): Usage | undefined {
    const {
      inputTokens: fresh,
      cacheWriteTokens = 0,
      cacheReadTokens = 0,
      outputTokens: written,
      reasoningTokens = 0,
    } = this.#counts;
    const inputTokens = sumOf([fresh, cacheWriteTokens, cacheReadTokens]);
    const outputTokens = sumOf([written, reasoningTokens]);
    if (inputTokens === undefined || outputTokens === undefined) return undefined;
    const isPossible = inputTokens > 0 && (outputTokens > 0 || !hasText);
    return isPossible ? { inputTokens, outputTokens } : undefined;
  }
}

/** Counts come from a document: one that is no number makes the total unknown. */
const larger = (before: number | undefined, count: unknown) => {
  if (typeof count !== "number") return Number.NaN;
  return before === undefined ? count : Math.max(before, count);
};

/** The sum; undefined unless all of it are counts. */
function sumOf(counts: readonly (number | undefined)[]): number | undefined {
  if (!counts.every(isCount)) return undefined;
  const sum = counts.reduce((total, count) => total + count, 0);
  return isCount(sum) ? sum : undefined;
}

const isCount = (value: unknown): value is number =>
  Number.isInteger(value) && Number(value) >= 0 && Number(value) < 2 ** 31;
