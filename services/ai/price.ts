import { z } from "zod";
import { nanosOf } from "../platform/money.ts";

/** Number of tokens to which a price refers. */
const PRICED_TOKENS = 1_000_000n;
/** Keeps the cost of any call within PostgreSQL's `bigint`. */
const MAX_PRICE = 1_000_000;
const MAX_TIERS = 8;

/** Money per million tokens, as a number in the catalogue and in nano-units here. */
const amountSchema = z
  .number("must be a number: the price of a million tokens")
  .min(0, "must not be negative")
  .max(MAX_PRICE, "must be at most 1,000,000")
  .refine((amount) => nanosOf(amount) !== undefined, "must have at most nine decimal places")
  .transform((amount) => nanosOf(amount) ?? 0n);

const ratesSchema = z.strictObject({
  /** Input that is neither read from the provider's cache nor written to it. */
  input: amountSchema,
  /** Input from the cache. By default that of `input`. */
  cachedInput: amountSchema.exactOptional(),
  /** Input written into the cache. By default that of `input`. */
  cacheWrite: amountSchema.exactOptional(),
  /** The part of it that is kept for an hour. By default that of `cacheWrite`. */
  cacheWrite1h: amountSchema.exactOptional(),
  /** Output, including reasoning. */
  output: amountSchema,
});

const completeRates = ({
  input,
  cachedInput = input,
  cacheWrite = input,
  cacheWrite1h = cacheWrite,
  output,
}: z.output<typeof ratesSchema>) => ({ input, cachedInput, cacheWrite, cacheWrite1h, output });

/** Prices of a kind of token, in nano-units per million. */
type Rates = ReturnType<typeof completeRates>;

/** The prices of calls with more input tokens than a number, for all their tokens. */
type Tier = Rates & { above: number };

/**
 * The price of a model: its tiers by ascending number of input tokens. The first one is for all
 * calls.
 */
export type Price = readonly [Tier, ...Tier[]];

const tierSchema = ratesSchema.extend({
  inputTokens: z
    .int("must be a whole number of tokens")
    .positive("must be a positive number of tokens"),
});

const tiersSchema = z
  .array(tierSchema)
  .min(1, "must have a tier, or be left out")
  .max(MAX_TIERS, `must have at most ${MAX_TIERS} tiers`)
  .superRefine((tiers, { addIssue }) => {
    for (const [index, { inputTokens }] of tiers.entries()) {
      const before = tiers[index - 1]?.inputTokens ?? 0;
      const message = "must be larger than that of the tier before";
      if (inputTokens <= before)
        addIssue({ code: "custom", path: [index, "inputTokens"], message });
    }
  });

/**
 * The price of a model in the catalogue. A model without one has an unknown price; one of 0 is
 * free.
 */
export const priceSchema = ratesSchema
  .extend({
    /** Other prices for calls with more input tokens than `inputTokens`. */
    above: tiersSchema.exactOptional(),
    /**
     * Where the price is published, and when it was last checked. For maintainers of the catalogue.
     */
    source: z.url({ protocol: /^https$/, error: "must be a URL with https" }).exactOptional(),
    checkedOn: z.iso.date("must be a date, such as 2026-11-28").exactOptional(),
  })
  .transform(({ above = [], source: _source, checkedOn: _checkedOn, ...rates }): Price => {
    const tiers = above.map(({ inputTokens, ...others }) => ({
      ...completeRates(others),
      above: inputTokens,
    }));
    return [{ ...completeRates(rates), above: 0 }, ...tiers];
  });

/** The tokens of a call by kinds with different prices. */
export type PricedTokens = {
  /** All input, including that read from and written to the provider's cache. */
  inputTokens: number;
  /** All output, including reasoning. */
  outputTokens: number;
  cachedInputTokens?: number;
  cacheWriteTokens?: number;
  /** The part of `cacheWriteTokens` that is kept for an hour. */
  cacheWrite1hTokens?: number;
};

/**
 * The cost of a call.
 * @param repeated input that was sent before, to models with these prices
 * @returns nano-units, rounded up once
 */
export function costOf(
  price: Price,
  tokens: PricedTokens,
  repeated: { prices: readonly Price[]; inputTokens: number } = { prices: [], inputTokens: 0 },
): bigint {
  const { inputTokens } = repeated;
  const sums = repeated.prices.map((each) => sumOf(each, { inputTokens, outputTokens: 0 }));
  return priceOf(sums.reduce((sum, each) => sum + each, sumOf(price, tokens)));
}

/** Tokens times their rates. */
function sumOf(price: Price, tokens: PricedTokens): bigint {
  const { inputTokens, outputTokens, cachedInputTokens = 0 } = tokens;
  const { cacheWriteTokens = 0, cacheWrite1hTokens = 0 } = tokens;
  const rates = price.findLast(({ above }) => inputTokens > above) ?? price[0];
  const parts: [count: number, rate: bigint][] = [
    [inputTokens - cachedInputTokens - cacheWriteTokens, rates.input],
    [cachedInputTokens, rates.cachedInput],
    [cacheWriteTokens - cacheWrite1hTokens, rates.cacheWrite],
    [cacheWrite1hTokens, rates.cacheWrite1h],
    [outputTokens, rates.output],
  ];
  return parts.reduce((sum, [count, rate]) => sum + BigInt(count) * rate, 0n);
}

/**
 * The maximum cost of a call, whatever its tier and however much of its input is read from the
 * cache or written to it: `input`, and `perOutputToken` for each token of its output.
 * @param inputTokens maximum number of tokens of its input
 * @returns nano-units, rounded up
 */
export function highestCost(
  price: Price,
  inputTokens: number,
): { input: bigint; perOutputToken: bigint } {
  const inputs = price.flatMap((tier) => [
    tier.input,
    tier.cachedInput,
    tier.cacheWrite,
    tier.cacheWrite1h,
  ]);
  return {
    input: priceOf(BigInt(inputTokens) * largest(inputs)),
    perOutputToken: priceOf(largest(price.map(({ output }) => output))),
  };
}

export const largest = (values: readonly bigint[]): bigint =>
  values.toSorted((a, b) => Number(a - b)).at(-1) ?? 0n;

/** A sum of tokens times their rates, in nano-units. */
const priceOf = (sum: bigint) => (sum + PRICED_TOKENS - 1n) / PRICED_TOKENS;
