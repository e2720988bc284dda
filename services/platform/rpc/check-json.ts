import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { ServiceError } from "./errors.ts";

/** Maximum number of members of all objects in a JSON text. The largest legal request has 1,029. */
const MAX_MEMBERS = 10_000;
/** Maximum nesting depth of a JSON text. Methods need at most 3. */
const MAX_DEPTH = 32;

/**
 * Bounds of a JSON text. Formats of foreign APIs, which contain schemas, need more than our own.
 */
export type JsonBounds = {
  /** Maximum number of values, each of which becomes an object. */
  values: number;
  /** Maximum number of members of all objects. */
  members?: number;
  depth?: number;
};

/** Maximum number of fields, on either port, of a method with its own format on HTTP. */
export const MAX_FORMAT_FIELDS = 100_000;
/**
 * Bounds of the JSON of such a method. Schemas inside it are nested up to 64 levels deep. 2,048
 * messages with one part each have 8,192 members, and 128 tools with 500 members each have 64,000.
 */
export const FORMAT_BOUNDS: JsonBounds = {
  values: 250_000,
  members: MAX_FORMAT_FIELDS,
  depth: 80,
};

const malformed = (message: string) => new ServiceError(Reason.MALFORMED_REQUEST, message);
/** The error for a message that would turn into too many objects. */
export const tooManyFields = () => malformed("The request has too many fields.");

/** Code units of structural characters (RFC 8259 section 2), and of quote and backslash. */
const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const LIST_START = 0x5b;
const BACKSLASH = 0x5c;
const LIST_END = 0x5d;
const OBJECT_START = 0x7b;
const OBJECT_END = 0x7d;

/** The keys of an open object; undefined for an open list. */
type Keys = Set<string> | undefined;

/**
 * Checks the size and depth of a JSON text before it is parsed.
 * @returns whether any object has a duplicate key
 * @throws ServiceError MALFORMED_REQUEST, SyntaxError
 */
export function checkJson(
  text: string,
  { values: maxValues, members: maxMembers = MAX_MEMBERS, depth = MAX_DEPTH }: JsonBounds,
): boolean {
  const open: Keys[] = [];
  let hasDuplicates = false;
  let [members, values] = [0, 0];
  let [start, end] = [0, 0]; // bounds of the latest string
  for (let i = 0; i < text.length; i++) {
    switch (text.charCodeAt(i)) {
      case QUOTE:
        start = i;
        i = closingQuote(text, i);
        end = i + 1;
        break;
      case COMMA:
        values++;
        break;
      case OBJECT_START:
        values++;
        enter(open, new Set(), depth);
        break;
      case LIST_START:
        values++;
        enter(open, undefined, depth);
        break;
      case OBJECT_END:
      case LIST_END:
        open.pop();
        break;
      case COLON:
        members++;
        hasDuplicates = !addKey(open.at(-1), text.slice(start, end)) || hasDuplicates;
    }
    if (members > maxMembers || values > maxValues) throw tooManyFields();
  }
  return hasDuplicates;
}

/** Number of objects, lists and strings in a JSON text, which need not be valid. */
export function partsIn(text: string): number {
  let parts = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === QUOTE) i = closingQuote(text, i);
    if (unit === QUOTE || unit === OBJECT_START || unit === LIST_START) parts++;
  }
  return parts;
}

/** The nesting depth of a JSON text, which need not be valid. */
export function depthOf(text: string): number {
  let [depth, deepest] = [0, 0];
  for (let i = 0; i < text.length; i++) {
    switch (text.charCodeAt(i)) {
      case QUOTE:
        i = closingQuote(text, i);
        break;
      case OBJECT_START:
      case LIST_START:
        deepest = Math.max(deepest, ++depth);
        break;
      case OBJECT_END:
      case LIST_END:
        depth--;
    }
  }
  return deepest;
}

/** @throws ServiceError MALFORMED_REQUEST */
function enter(open: Keys[], keys: Keys, maxDepth: number): void {
  open.push(keys);
  if (open.length > maxDepth)
    throw malformed(`The body is nested more than ${maxDepth} levels deep.`);
}

/**
 * Adds the key of a member. An escaped key equals its unescaped form.
 * @returns false if the object already has it
 */
function addKey(keys: Keys, quoted: string): boolean {
  const key: string = quoted.includes("\\") ? JSON.parse(quoted) : quoted.slice(1, -1);
  const isNew = !keys?.has(key);
  keys?.add(key);
  return isNew;
}

/**
 * Whether a JSON text escapes a NUL character or a lone surrogate, in a key or value. PostgreSQL
 * and protobuf accept neither. Scanning the text is faster than visiting the parsed value.
 */
export function hasInvalidEscape(text: string): boolean {
  const first = text.indexOf("\\");
  if (first === -1) return false;
  for (let i = first; i < text.length; i++) {
    if (text.charCodeAt(i) !== BACKSLASH) continue;
    const kind = escapeAt(text, i);
    const isPair = kind === "high" && escapeAt(text, i + UNICODE_ESCAPE) === "low";
    if (kind !== "valid" && !isPair) return true;
    i += isPair ? 2 * UNICODE_ESCAPE - 1 : 1; // the escaped character does not start an escape
  }
  return false;
}

/** Length of an escape such as `\u000a`. */
const UNICODE_ESCAPE = 6;
const LOWER_D = 0x64;
const LOWER_U = 0x75;
const ZERO = 0x30;
/** The bit that differs between a lower-case letter and its upper-case form. */
const LOWER_CASE = 0x20;
/** Digits that follow `\ud` in the first half of a surrogate pair, and in the second. */
const HIGH = "89ab";
const LOW = "cdef";

/** Kind of the escape at an index. Compares code units, since a text can have a million of them. */
function escapeAt(text: string, at: number): "valid" | "nul" | "high" | "low" {
  if (text.charCodeAt(at) !== BACKSLASH || text.charCodeAt(at + 1) !== LOWER_U) return "valid";
  const digit = text.charCodeAt(at + 2);
  if (digit === ZERO) return text.startsWith("000", at + 3) ? "nul" : "valid";
  if ((digit | LOWER_CASE) !== LOWER_D) return "valid";
  const next = String.fromCharCode(text.charCodeAt(at + 3) | LOWER_CASE);
  if (HIGH.includes(next)) return "high";
  return LOW.includes(next) ? "low" : "valid";
}

/**
 * Index of the closing quote of the string that begins at `opening`; the length of the text if
 * there is none.
 */
function closingQuote(text: string, opening: number): number {
  const next = text.indexOf('"', opening + 1);
  if (next === -1) return text.length;
  if (text.charCodeAt(next - 1) !== BACKSLASH) return next;
  for (let i = opening + 1; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === QUOTE) return i;
    if (unit === BACKSLASH) i++;
  }
  return text.length;
}
