import type { ReportedUsage, Usage, UsageDetails } from "./provider.ts";

const NAMES = [
  "inputTokens",
  "cacheWriteTokens",
  "cacheReadTokens",
  "outputTokens",
  "reasoningTokens",
  // Not an addend. What it has in excess of the others is hidden reasoning.
  "totalTokens",
  // Parts of other counts:
  "includedCacheRead",
  "includedCacheWrite",
  "cacheWrite1h",
  "includedReasoning",
] as const;

/**
 * Token counts of one event. No count includes another, except for those that are named so: cache
 * writes, cache reads and reasoning are separate if the provider counts them separately.
 */
export type UsageCounts = { [name in (typeof NAMES)[number]]?: number | null | undefined };

/**
 * The token counts of a reply. Events repeat counts, omit them or set them to zero, while the real
 * counts only grow. The maximum of each is used.
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
   * The usage of the reply. Undefined unless the provider has reported all of it and it is
   * plausible: a prompt has input tokens, and text has output tokens.
   */
  usage(hasText: boolean): Usage | undefined {
    const inputTokens = this.#inputTokens;
    const outputTokens = this.#outputTokens;
    if (inputTokens === undefined || outputTokens === undefined) return undefined;
    const isPossible = inputTokens > 0 && (outputTokens > 0 || !hasText);
    return isPossible ? { inputTokens, outputTokens } : undefined;
  }

  /** What has been reported so far, as far as it is plausible. */
  reported(): ReportedUsage {
    const inputTokens = this.#inputTokens || undefined;
    const outputTokens = this.#outputTokens;
    const details = this.details({
      inputTokens: inputTokens ?? 0,
      outputTokens: outputTokens ?? 0,
    });
    return {
      ...details,
      ...(inputTokens !== undefined && { inputTokens }),
      ...(outputTokens !== undefined && { outputTokens }),
    };
  }

  /** Undefined unless it has been reported. */
  get #inputTokens(): number | undefined {
    const { inputTokens, cacheWriteTokens = 0, cacheReadTokens = 0 } = this.#counts;
    return sumOf([inputTokens, cacheWriteTokens, cacheReadTokens]);
  }

  /** Undefined unless it has been reported. */
  get #outputTokens(): number | undefined {
    const { outputTokens, reasoningTokens = 0, totalTokens } = this.#counts;
    const reported = sumOf([outputTokens, reasoningTokens]);
    const inputTokens = this.#inputTokens;
    if (reported === undefined || !inputTokens || !isCount(totalTokens)) return reported;
    return Math.max(reported, totalTokens - inputTokens);
  }

  /** What the usage consists of, as far as that is plausible. */
  details({ inputTokens, outputTokens }: Usage): UsageDetails {
    const countOf = (...names: (keyof UsageCounts)[]) =>
      sumOf(names.map((name) => this.#counts[name] ?? 0)) ?? 0;
    const read = countOf("cacheReadTokens", "includedCacheRead");
    const written = countOf("cacheWriteTokens", "includedCacheWrite");
    const isPossible = read + written <= inputTokens;
    return {
      cachedInputTokens: isPossible ? read : 0,
      cacheWriteTokens: isPossible ? written : 0,
      cacheWrite1hTokens: isPossible ? Math.min(written, countOf("cacheWrite1h")) : 0,
      reasoningTokens: Math.min(outputTokens, countOf("reasoningTokens", "includedReasoning")),
    };
  }
}

/**
 * The larger count. Counts are unchecked JSON: NaN, for a value of another type, voids the total.
 */
const larger = (before: number | undefined, count: unknown) => {
  if (typeof count !== "number") return Number.NaN;
  return before === undefined ? count : Math.max(before, count);
};

/** The sum; undefined unless every addend and the sum are valid counts. */
function sumOf(counts: readonly (number | undefined)[]): number | undefined {
  if (!counts.every(isCount)) return undefined;
  const sum = counts.reduce((total, count) => total + count, 0);
  return isCount(sum) ? sum : undefined;
}

const isCount = (value: unknown): value is number =>
  Number.isInteger(value) && Number(value) >= 0 && Number(value) < 2 ** 31;
