import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Violation } from "../platform/rpc/errors.ts";

/** Maximum size of the metadata of a user, in bytes of JSON. Access tokens cannot carry more. */
const MAX_BYTES = 4_096;
/** Maximum nesting depth, the object itself included. */
const MAX_DEPTH = 8;

/** Checks the metadata in a request, as part of its validation. */
export function checkMetadata({ metadata }: { metadata?: JsonObject | undefined }): Violation[] {
  const message = metadata && (problemOf(metadata, 1) ?? problemOfSize(metadata));
  return message === undefined ? [] : [{ field: "metadata", message }];
}

/** Metadata in stored form: null for an empty object. */
export const storedMetadata = (metadata: JsonObject): JsonObject | null =>
  Object.keys(metadata).length > 0 ? metadata : null;

const problemOfSize = (metadata: JsonObject): string | undefined =>
  Buffer.byteLength(JSON.stringify(metadata)) > MAX_BYTES
    ? "must be at most 4096 bytes of JSON"
    : undefined;

/** The reason why a JSON value could not be stored unchanged; undefined if there is none. */
function problemOf(value: JsonValue, depth: number): string | undefined {
  if (typeof value === "string") return problemOfText(value);
  if (typeof value === "number") return problemOfNumber(value);
  if (typeof value !== "object" || value === null) return undefined;
  if (depth > MAX_DEPTH) return "must be nested at most 8 levels deep";
  for (const [name, item] of Object.entries(value)) {
    const problem = problemOfText(name) ?? problemOf(item, depth + 1);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

const problemOfText = (text: string): string | undefined =>
  text.includes("\0") || !text.isWellFormed()
    ? "must not contain NUL characters or lone surrogates"
    : undefined;

/**
 * Larger integers were rounded when the request was read. Infinity and NaN cannot occur in JSON.
 */
function problemOfNumber(number: number): string | undefined {
  if (Math.abs(number) <= Number.MAX_SAFE_INTEGER) return undefined;
  return "must not contain numbers beyond 9007199254740991";
}
