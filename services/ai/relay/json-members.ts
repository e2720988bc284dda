/** A member in a JSON text: the place of its name and the bounds of its value. */
type Span = { from: number; start: number; end: number };

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const OPENING = new Set([0x5b, 0x7b]);
const CLOSING = new Set([0x5d, 0x7d]);

/**
 * Sets members of a JSON object and leaves the rest of its text unchanged: parsing and printing it
 * would round numbers and change the order of keys.
 * @param text a valid JSON object without duplicate keys
 * @param members JSON texts by name
 */
export function withMembers(text: string, members: Readonly<Record<string, string>>): string {
  const { spans, end } = topLevelMembers(text);
  let result = "";
  let at = 0;
  for (const [name, { start, end: valueEnd }] of spans) {
    const value = Object.hasOwn(members, name) ? members[name] : undefined;
    if (value === undefined) continue;
    result += text.slice(at, start) + value;
    at = valueEnd;
  }
  result += text.slice(at, end);
  let separator = spans.size > 0 ? "," : "";
  for (const [name, value] of Object.entries(members)) {
    if (spans.has(name)) continue;
    result += `${separator}${JSON.stringify(name)}:${value}`;
    separator = ",";
  }
  return result + text.slice(end);
}

/**
 * Removes a member of a JSON object, if it has it, and leaves the rest of its text unchanged.
 * @param text a valid JSON object without duplicate keys
 */
export function withoutMember(text: string, name: string): string {
  const { spans } = topLevelMembers(text);
  const span = spans.get(name);
  if (!span) return text;
  const next = afterBlanks(text, span.end);
  const hasNext = text.charCodeAt(next) === COMMA;
  if (hasNext || spans.size === 1)
    return text.slice(0, span.from) + text.slice(hasNext ? next + 1 : next);
  return text.slice(0, text.lastIndexOf(",", span.from)) + text.slice(next);
}

/** The values of the members of an object, in order, and the place of its closing brace. */
function topLevelMembers(text: string): { spans: Map<string, Span>; end: number } {
  const spans = new Map<string, Span>();
  let at = afterBlanks(text, text.indexOf("{") + 1);
  while (text.charCodeAt(at) === QUOTE) {
    const keyEnd = closingQuote(text, at) + 1;
    const start = afterBlanks(text, text.indexOf(":", keyEnd) + 1);
    const end = endOfValue(text, start);
    spans.set(JSON.parse(text.slice(at, keyEnd)), { from: at, start, end });
    const next = afterBlanks(text, end);
    at = text.charCodeAt(next) === COMMA ? afterBlanks(text, next + 1) : next;
  }
  return { spans, end: at };
}

/** Place of the next character that is not white space (RFC 8259 section 2). */
function afterBlanks(text: string, from: number): number {
  let at = from;
  while (" \t\r\n".includes(text.charAt(at)) && at < text.length) at++;
  return at;
}

/** Characters after a number or a word. */
const DELIMITER = /[\s,\]}]/g;

/** Place after the value that begins at `start`. */
function endOfValue(text: string, start: number): number {
  const first = text.charCodeAt(start);
  if (first === QUOTE) return closingQuote(text, start) + 1;
  if (OPENING.has(first)) return endOfNested(text, start);
  DELIMITER.lastIndex = start;
  return DELIMITER.exec(text)?.index ?? text.length;
}

/** Place after the object or list that begins at `start`. */
function endOfNested(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) at = closingQuote(text, at);
    else if (OPENING.has(unit)) depth++;
    else if (CLOSING.has(unit) && --depth === 0) return at + 1;
  }
  return text.length;
}

/** Index of the closing quote of the string that begins at `opening`. */
function closingQuote(text: string, opening: number): number {
  for (let at = opening + 1; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) return at;
    if (unit === BACKSLASH) at++;
  }
  return text.length;
}
