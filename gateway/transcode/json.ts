import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { ServiceError } from "../../services/platform/errors.ts";

/** Deepest nesting of a JSON body. The deepest that a method needs is 3. */
const MAX_DEPTH = 32;

const utf8 = new TextDecoder("utf-8", { fatal: true });
const malformed = (message: string) => new ServiceError(Reason.MALFORMED_REQUEST, message);

/**
 * Parses a request body as JSON, more strictly than `JSON.parse`: valid UTF-8, no duplicate keys, bounded depth.
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
  try {
    json = JSON.parse(text);
  } catch {
    throw malformed("The body is not valid JSON.");
  }
  checkStructure(text);
  return { json, hasEscapes: text.includes("\\u") };
}

/** Whether a key or value contains a NUL character or a lone surrogate. PostgreSQL and protobuf accept neither. */
export function hasInvalidText(json: unknown): boolean {
  if (typeof json === "string") return !json.isWellFormed() || json.includes("\0");
  if (typeof json !== "object" || json === null) return false;
  return Object.entries(json).some(([key, value]) => hasInvalidText(key) || hasInvalidText(value));
}

/** Finds duplicate keys, which `JSON.parse` silently drops, and deep nesting. The text is known to be valid JSON. */
function checkStructure(text: string): void {
  const open: Set<string>[] = []; // keys of each open object; empty for arrays
  let start = 0;
  let end = 0; // bounds of the latest string
  for (let i = 0; i < text.length; i++) {
    switch (text[i]) {
      case '"':
        start = i;
        i = closingQuote(text, i);
        end = i + 1;
        break;
      case "{":
      case "[":
        open.push(new Set());
        if (open.length > MAX_DEPTH) throw malformed(`The body is nested more than ${MAX_DEPTH} levels deep.`);
        break;
      case "}":
      case "]":
        open.pop();
        break;
      case ":": {
        const quoted = text.slice(start, end);
        const key: string = quoted.includes("\\") ? JSON.parse(quoted) : quoted.slice(1, -1); // an escaped key equals the plain one
        const keys = open.at(-1);
        if (keys?.has(key)) throw malformed("The body names a key twice.");
        keys?.add(key);
      }
    }
  }
}

function closingQuote(text: string, opening: number): number {
  for (let i = text.indexOf('"', opening + 1); ; i = text.indexOf('"', i + 1)) {
    let backslashes = 0;
    while (text[i - 1 - backslashes] === "\\") backslashes++;
    if (backslashes % 2 === 0) return i;
  }
}
