/** Of ECMAScript's "JSON.parse source text access", which TypeScript does not declare yet. */
const { rawJSON } = JSON as typeof JSON & { rawJSON(text: string): object };
type Reviver = (key: string, value: unknown, context?: { source?: string }) => unknown;

/** What a text with an integer beyond 2^53 contains. Other texts are parsed without a reviver, which is slow. */
const LONG_NUMBER = /\d{16}/;
const INTEGER = /^-?\d+$/;

/**
 * Parses a JSON text whose numbers are somebody else's, such as the arguments of a tool call. An integer that a
 * number cannot hold becomes an object that `JSON.stringify` writes as it was: rounded, the id of a row
 * would be that of another one.
 * @throws SyntaxError
 */
export const parseExactly = (text: string): unknown =>
  LONG_NUMBER.test(text) ? JSON.parse(text, keepLongInteger) : JSON.parse(text);

const keepLongInteger: Reviver = (_key, value, { source = "" } = {}) => {
  const isLong = typeof value === "number" && !Number.isSafeInteger(value) && INTEGER.test(source);
  return isLong ? rawJSON(source) : value;
};
