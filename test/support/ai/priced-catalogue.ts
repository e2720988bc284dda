// A catalogue with prices, and the costs of calls by it, computed independently of the product.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../temporary-folder.ts";

/** Prices per million tokens. Decimals are text, so that nothing here depends on floating point. */
export type TestRates = {
  input: string;
  cachedInput: string;
  cacheWrite: string;
  cacheWrite1h: string;
  output: string;
};
export type TestPrice = TestRates & { above?: (TestRates & { inputTokens: number })[] };

const rates = (
  input: string,
  cachedInput: string,
  cacheWrite: string,
  cacheWrite1h: string,
  output: string,
): TestRates => ({ input, cachedInput, cacheWrite, cacheWrite1h, output });

/** The price of every model of a provider. */
export const PRICES: Record<string, TestPrice> = {
  "provider-a": {
    ...rates("1.25", "0.125", "1.5625", "1.5625", "10"),
    above: [{ inputTokens: 272_000, ...rates("2.5", "0.25", "3.125", "3.125", "15") }],
  },
  "provider-b": {
    ...rates("3", "0.3", "3.75", "6", "15"),
    above: [{ inputTokens: 200_000, ...rates("6", "0.6", "7.5", "12", "22.5") }],
  },
  "provider-c": {
    ...rates("0.3", "0.03", "0.3", "0.3", "2.5"),
    above: [
      { inputTokens: 128_000, ...rates("0.6", "0.06", "0.6", "0.6", "3.7") },
      { inputTokens: 200_000, ...rates("0.9", "0.09", "0.9", "0.9", "5.000000001") },
    ],
  },
  "provider-d": rates("0.0001", "0.00001", "0.0001", "0.0001", "0.0003"),
};

const numbersOf = ({ above, ...price }: TestPrice) => ({
  ...amountsOf(price),
  ...(above && {
    above: above.map(({ inputTokens, ...tier }) => ({ inputTokens, ...amountsOf(tier) })),
  }),
});
const amountsOf = (given: TestRates) =>
  Object.fromEntries(Object.entries(given).map(([name, text]) => [name, Number(text)]));

/**
 * Writes a copy of the shipped catalogue with prices.
 * @param prices by provider; a provider without one has an unknown price
 * @returns its path
 */
export function pricedCatalogue(prices = PRICES): string {
  const shipped = new URL("../../../services/ai/catalogue/neutral.json", import.meta.url);
  const catalogue = JSON.parse(readFileSync(shipped, "utf8"));
  for (const { id, models } of catalogue.providers) {
    const price = prices[id];
    for (const model of models) model.price = price && numbersOf(price);
  }
  const path = join(temporaryFolder(), "priced.json");
  const priced = { ...catalogue, currency: "EUR", pricesAsOf: "2026-11-28" };
  writeFileSync(path, JSON.stringify(priced));
  return path;
}

/** The tokens of a call, each counted once. */
export type Billed = {
  fresh: number;
  cached: number;
  written: number;
  writtenForHour: number;
  output: number;
};

/** A decimal in billionths. */
function billionths(decimal: string): bigint {
  const [whole = "", fraction = ""] = decimal.split(".");
  return BigInt(whole + fraction.padEnd(9, "0"));
}

/** What a call costs, in billionths of the currency. */
export function truthOf(price: TestPrice, billed: Billed): bigint {
  const input = billed.fresh + billed.cached + billed.written + billed.writtenForHour;
  let tier: TestRates = price;
  for (const { inputTokens, ...higher } of price.above ?? [])
    if (input > inputTokens) tier = higher;
  const millionths =
    BigInt(billed.fresh) * billionths(tier.input) +
    BigInt(billed.cached) * billionths(tier.cachedInput) +
    BigInt(billed.written) * billionths(tier.cacheWrite) +
    BigInt(billed.writtenForHour) * billionths(tier.cacheWrite1h) +
    BigInt(billed.output) * billionths(tier.output);
  return millionths / 1_000_000n + (millionths % 1_000_000n > 0n ? 1n : 0n);
}

/** Billionths as the API writes money. */
export function moneyIn(amount: bigint): string {
  const fraction = String(amount % 1_000_000_000n)
    .padStart(9, "0")
    .replace(/0+$/, "");
  return `${amount / 1_000_000_000n}${fraction && `.${fraction}`}`;
}

/** Billionths of money as the API writes it. */
export const billionthsIn = (money: string): bigint => billionths(money);
