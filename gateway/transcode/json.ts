import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { ServiceError } from "../../services/platform/errors.ts";

/** Most members of all objects of a body; the largest legal request has 1,029. */
const MAX_MEMBERS = 10_000;
/** Most values of a body. Each becomes an object: 2 MiB of them would block the process for a third of a second. */
const MAX_VALUES = 250_000;
/** Deepest nesting of a JSON body. The deepest that a method needs is 3. */
const MAX_DEPTH = 32;

const utf8 = new TextDecoder("utf-8", { fatal: true });
const malformed = (message: string) => new ServiceError(Reason.MALFORMED_REQUEST, message);

/**
 * Parses a request body as JSON, more strictly than `JSON.parse`: valid UTF-8, no duplicate keys, bounded depth and size.
 * Text can contain NUL characters and lone surrogates only as escapes: {@link hasInvalidText} finds them if `hasEscapes`.
 * @throws ServiceError MALFORMED_REQUEST; the message never quotes the text, which may contain a password
 */
export function parseJson(bytes: Uint8Array): { json: unknown; hasEscapes: boolean } {
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    throw malformed("The body is not valid UTF-8.");
  }
  let json: unknown;
  let hasDuplicates: boolean;
  try {
    hasDuplicates = checkStructure(text);
    json = JSON.parse(text);
  } catch (error) {
    throw error instanceof ServiceError ? error : malformed("The body is not valid JSON.");
  }
  if (hasDuplicates) throw malformed("The body contains a key twice.");
  return { json, hasEscapes: text.includes("\\u") };
}

/** Whether a key or value contains a NUL character or a lone surrogate. PostgreSQL and protobuf accept neither. */
export function hasInvalidText(json: unknown): boolean {
  if (typeof json === "string") return !json.isWellFormed() || json.includes("\0");
  if (typeof json !== "object" || json === null) return false;
  return Object.entries(json).some(([key, value]) => hasInvalidText(key) || hasInvalidText(value));
}

/** Checks the size and depth of a JSON text before it is parsed. @returns whether an object has a key twice */
function checkStructure(text: string): boolean {
  const open: (Set<string> | undefined)[] = []; // keys of each open object; undefined for arrays
  let hasDuplicates = false;
  let [members, values] = [0, 0];
  let [start, end] = [0, 0]; // bounds of the latest string
  for (let i = 0; i < text.length; i++) {
    switch (text[i]) {
      case '"':
        start = i;
        i = closingQuote(text, i);
        end = i + 1;
        break;
      case ",":
        values++;
        break;
      case "{":
      case "[":
        values++;
        open.push(text[i] === "{" ? new Set() : undefined);
        if (open.length > MAX_DEPTH) throw malformed(`The body is nested more than ${MAX_DEPTH} levels deep.`);
        break;
      case "}":
      case "]":
        open.pop();
        break;
      case ":": {
        members++;
        const quoted = text.slice(start, end);
        const key: string = quoted.includes("\\") ? JSON.parse(quoted) : quoted.slice(1, -1); // an escaped key equals the plain one
        const keys = open.at(-1);
        hasDuplicates ||= keys?.has(key) ?? false;
        keys?.add(key);
      }
    }
    if (members > MAX_MEMBERS || values > MAX_VALUES) throw malformed("The request has too many fields.");
  }
  return hasDuplicates;
}

/** Index of the quote that ends the string which begins at `opening`; the length of the text if none does. */
function closingQuote(text: string, opening: number): number {
  for (let i = text.indexOf('"', opening + 1); i !== -1; i = text.indexOf('"', i + 1)) {
    let backslashes = 0;
    while (text[i - 1 - backslashes] === "\\") backslashes++;
    if (backslashes % 2 === 0) return i;
  }
  return text.length;
}
