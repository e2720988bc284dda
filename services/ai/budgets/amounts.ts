import { decimalOf } from "../../platform/money.ts";
import type { BudgetUnit } from "../../store/budgets.ts";

const PLACES = 9;
/** Largest limit: a million in the currency, or 10^15 tokens. */
export const MAX_AMOUNT = 1_000_000_000_000_000n;
const DECIMAL = /^(\d{1,16})(?:\.(\d{1,9}))?$/;

/** An amount as text: money as a decimal in the currency, or a number of tokens. */
export const amountText = (amount: bigint, unit: BudgetUnit): string =>
  unit === "cost" ? decimalOf(amount) : String(amount);

/**
 * Reads an amount: nano-units of money, or tokens.
 * @returns undefined if it is not one, or too large
 */
export function readAmount(text: string, unit: BudgetUnit): bigint | undefined {
  const [, whole, places = ""] = DECIMAL.exec(text) ?? [];
  if (whole === undefined || (unit === "tokens" && places !== "")) return undefined;
  const amount = BigInt(unit === "cost" ? whole + places.padEnd(PLACES, "0") : whole);
  return amount <= MAX_AMOUNT ? amount : undefined;
}

/** An amount for people, such as `20.00 USD` or `100000 tokens`. */
export function amountInWords(amount: bigint, unit: BudgetUnit, currency: string): string {
  if (unit === "tokens") return `${amount} tokens`;
  const [whole = "", places = ""] = decimalOf(amount).split(".");
  return `${whole}.${places.padEnd(2, "0")} ${currency}`;
}
