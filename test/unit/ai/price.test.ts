import { describe, expect, test } from "vitest";
import {
  costOf,
  highestCost,
  type Price,
  type PricedTokens,
  priceSchema,
} from "../../../services/ai/price.ts";
import { decimalOf } from "../../../services/platform/money.ts";

const RATES = { input: 3, cachedInput: 0.3, cacheWrite: 3.75, cacheWrite1h: 6, output: 15 };
const TIER = { inputTokens: 200_000, input: 6, cachedInput: 0.6, output: 22.5 };

/** Prices and tokens, and what they cost in nano-units. */
const COSTS: [what: string, price: object, tokens: PricedTokens, nanos: bigint][] = [
  ["input and output", RATES, { inputTokens: 1_000, outputTokens: 100 }, 4_500_000n],
  ["nothing", RATES, { inputTokens: 0, outputTokens: 0 }, 0n],
  ["a free model", { input: 0, output: 0 }, { inputTokens: 9, outputTokens: 9 }, 0n],
  [
    "input from the cache",
    RATES,
    { inputTokens: 1_000, outputTokens: 0, cachedInputTokens: 900 },
    570_000n, // 100 × 3000 + 900 × 300
  ],
  [
    "input into the cache, for five minutes and for an hour",
    RATES,
    { inputTokens: 1_000, outputTokens: 0, cacheWriteTokens: 500, cacheWrite1hTokens: 200 },
    3_825_000n, // 500 × 3000 + 300 × 3750 + 200 × 6000
  ],
  [
    "cached input without a price of its own",
    { input: 2, output: 1 },
    {
      inputTokens: 10,
      outputTokens: 0,
      cachedInputTokens: 4,
      cacheWriteTokens: 3,
      cacheWrite1hTokens: 1,
    },
    20_000n,
  ],
  [
    "an hour in the cache without a price of its own",
    { input: 2, cacheWrite: 4, output: 1 },
    { inputTokens: 10, outputTokens: 0, cacheWriteTokens: 10, cacheWrite1hTokens: 10 },
    40_000n,
  ],
  [
    "the limit of a tier",
    { ...RATES, above: [TIER] },
    { inputTokens: 200_000, outputTokens: 1 },
    600_015_000n,
  ],
  [
    "one token above a tier, which counts for all tokens",
    { ...RATES, above: [TIER] },
    { inputTokens: 200_001, outputTokens: 1, cachedInputTokens: 200_000 },
    120_028_500n, // 1 × 6000 + 200000 × 600 + 22500
  ],
  [
    "the highest of two tiers",
    { input: 1, output: 0, above: [TIER, { ...TIER, inputTokens: 300_000, input: 9 }] },
    { inputTokens: 300_001, outputTokens: 0 },
    2_700_009_000n,
  ],
  [
    "less than a nano-unit, rounded up once",
    { input: 0.0001, output: 0.0001 },
    { inputTokens: 1, outputTokens: 1 },
    1n, // 0.2
  ],
  [
    "the smallest price and the most tokens",
    { input: 0.000000001, output: 1_000_000 },
    { inputTokens: 2 ** 31 - 1, outputTokens: 2 ** 31 - 1 },
    2_147_483_647_000_002_148n,
  ],
];

describe("Cost of a call", () => {
  test.each(COSTS)("%s", (_, price, tokens, nanos) => {
    expect(costOf(priceSchema.parse(price), tokens)).toBe(nanos);
  });

  test("repeated input is added at its own price and tier, and the sum rounded up once", () => {
    const [dear, cheap] = [
      { ...RATES, above: [TIER] },
      { input: 0.0001, output: 0.0001 },
    ].map((price) => priceSchema.parse(price)) as [Price, Price];
    const repeatedBy = (prices: Price[], inputTokens: number) =>
      costOf(cheap, { inputTokens, outputTokens: 1 }, { prices, inputTokens });
    expect(repeatedBy([dear], 100)).toBe(300_011n); // 100 × 3000 + 101 × 0.1
    expect(repeatedBy([dear], 150_000)).toBe(450_015_001n); // each of them is below the tier
    expect(repeatedBy([cheap, cheap], 1)).toBe(1n); // 4 × 0.1
  });

  test("the highest cost is never exceeded", () => {
    const price = priceSchema.parse({ ...RATES, input: 0.0001, above: [TIER] });
    const { input, perOutputToken } = highestCost(price, 300_000);
    expect([input, perOutputToken]).toEqual([1_800_000_000n, 22_500n]);
    for (const inputTokens of [0, 1, 200_000, 200_001, 300_000]) {
      for (const part of [0, 0.5, 1]) {
        const cacheWriteTokens = Math.floor(inputTokens * part);
        const cost = costOf(price, {
          ...{ inputTokens, outputTokens: 7, cacheWriteTokens },
          cacheWrite1hTokens: cacheWriteTokens,
        });
        expect(cost).toBeLessThanOrEqual(input + 7n * perOutputToken);
      }
    }
    const tiny = priceSchema.parse({ input: 0.0001, output: 0.0001 });
    expect(highestCost(tiny, 1)).toEqual({ input: 1n, perOutputToken: 1n });
  });
});

test.each([
  [0n, "0"],
  [1n, "0.000000001"],
  [2_130_000n, "0.00213"],
  [20_000_000_000n, "20"],
  [100_500_000_000n, "100.5"],
  [9_223_372_036_854_775_807n, "9223372036.854775807"],
])("Money: %s nano-units are written as %s", (nanos, text) => {
  expect(decimalOf(nanos)).toBe(text);
});
