import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { ServiceError } from "./errors.ts";

/** Most members of all objects of a JSON text; the largest legal request has 1,029. */
const MAX_MEMBERS = 10_000;
/** Deepest nesting of a JSON text. The deepest that a method needs is 3. */
const MAX_DEPTH = 32;

const malformed = (message: string) => new ServiceError(Reason.MALFORMED_REQUEST, message);
/** The error for a message whose parts would become too many objects. */
export const tooManyFields = () => malformed("The request has too many fields.");

/**
 * Checks the size and depth of a JSON text before it is parsed.
 * @param maxValues most values, each of which becomes an object: 2 MiB of them would block the
 * process for a third of a second
 * @returns whether an object has a key twice
 * @throws ServiceError MALFORMED_REQUEST, SyntaxError
 */
export function checkJson(text: string, maxValues: number): boolean {
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
        if (open.length > MAX_DEPTH)
          throw malformed(`The body is nested more than ${MAX_DEPTH} levels deep.`);
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
    if (members > MAX_MEMBERS || values > maxValues) throw tooManyFields();
  }
  return hasDuplicates;
}

/**
 * Index of the quote that ends the string which begins at `opening`; the length of the text if none
 * does.
 */
function closingQuote(text: string, opening: number): number {
  for (let i = text.indexOf('"', opening + 1); i !== -1; i = text.indexOf('"', i + 1)) {
    let backslashes = 0;
    while (text[i - 1 - backslashes] === "\\") backslashes++;
    if (backslashes % 2 === 0) return i;
  }
  return text.length;
}
