/** Decimal places of amounts of money; the last one is a nano-unit. */
const PLACES = 9;

/**
 * Formats money as text, since JSON numbers are rounded.
 * @param nanos in nano-units of the currency
 * @returns a decimal in the currency without trailing zeros, such as `0.00213`
 */
export function decimalOf(nanos: bigint): string {
  const digits = String(nanos).padStart(PLACES + 1, "0");
  return `${digits.slice(0, -PLACES)}.${digits.slice(-PLACES)}`.replace(/\.?0+$/, "");
}

/**
 * Converts a number with at most nine decimal places to nano-units.
 * @returns undefined for any other number
 */
export function nanosOf(amount: number): bigint | undefined {
  const text = amount.toFixed(PLACES);
  return Number(text) === amount ? BigInt(text.replace(".", "")) : undefined;
}
