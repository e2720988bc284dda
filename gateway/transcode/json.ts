/** Deepest nesting of a JSON body; the deepest that any method needs is 3. */
const MAX_DEPTH = 32;

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Bytes that are not one JSON value in the strict sense that requests need. Its message is for the caller. */
export class MalformedJson extends Error {}

/**
 * Reads a request body as JSON, more strictly than `JSON.parse`: valid UTF-8, no key twice, bounded depth.
 * Decoded text holds neither NUL (JSON forbids it) nor a lone surrogate unless one is written as an escape: `suspect`
 * says that there are escapes, so that {@link hasBrokenText} is worth asking.
 * @throws MalformedJson; the message never quotes the text, which may hold a password
 */
export function parseJson(bytes: Uint8Array): { json: unknown; suspect: boolean } {
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    throw new MalformedJson("The body is not valid UTF-8.");
  }
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw new MalformedJson("The body is not valid JSON.");
  }
  checkStructure(text);
  return { json, suspect: text.includes("\\u") };
}

/** Whether any key or value holds a NUL character or a lone surrogate, which no store and no wire takes. */
export function hasBrokenText(json: unknown): boolean {
  if (typeof json === "string") return !json.isWellFormed() || json.includes("\0");
  if (typeof json !== "object" || json === null) return false;
  return Object.entries(json).some(([key, value]) => hasBrokenText(key) || hasBrokenText(value));
}

/** Looks for repeated keys, which `JSON.parse` silently drops, and deep nesting, in text that has been parsed already. */
function checkStructure(text: string): void {
  const open: Set<string>[] = []; // the keys seen in each open object; arrays have a set that stays empty
  let start = 0;
  let end = 0; // the string seen last
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
        if (open.length > MAX_DEPTH) throw new MalformedJson(`The body is nested more than ${MAX_DEPTH} levels deep.`);
        break;
      case "}":
      case "]":
        open.pop();
        break;
      case ":": {
        const quoted = text.slice(start, end);
        const key: string = quoted.includes("\\") ? JSON.parse(quoted) : quoted.slice(1, -1); // an escaped key is the same key
        const keys = open.at(-1);
        if (keys?.has(key)) throw new MalformedJson("The body names a key twice.");
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
