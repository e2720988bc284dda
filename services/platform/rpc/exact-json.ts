/** Part of ECMAScript's "JSON.parse source text access", which TypeScript does not declare yet. */
const { rawJSON } = JSON as typeof JSON & { rawJSON(text: string): object };
type Reviver = (key: string, value: unknown, context?: { source?: string }) => unknown;

/**
 * Matches any text that contains an integer beyond 2^53. Other texts are parsed without a reviver,
 * which is slow.
 */
const LONG_NUMBER = /\d{16}/;
const INTEGER = /^-?\d+$/;

/**
 * Parses a JSON text whose numbers must not change, such as the arguments of a tool call. An
 * integer that a JavaScript number cannot represent becomes an object that `JSON.stringify` writes
 * unchanged: a rounded id would identify another row.
 * @throws SyntaxError
 */
export const parseExactly = (text: string): unknown =>
  LONG_NUMBER.test(text) ? JSON.parse(text, keepLongInteger) : JSON.parse(text);

const keepLongInteger: Reviver = (_key, value, { source = "" } = {}) => {
  const isLong = typeof value === "number" && !Number.isSafeInteger(value) && INTEGER.test(source);
  return isLong ? rawJSON(source) : value;
};
