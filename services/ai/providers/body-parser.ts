import { createParser, type EventSourceParser, type ParseError } from "eventsource-parser";

/** Maximum size of an event, in characters. */
const EVENT_CHARACTERS = 1024 * 1024;
/** Maximum size of a document outside of events, in characters. */
const DOCUMENT_CHARACTERS = 16 * 1024 * 1024;
/** Size of a line that is held, in characters, in addition to its text. */
const LINE_CHARACTERS = 16;

type Handlers = {
  onEvent(data: string, name: string | undefined): void;
  /** A field `error`, which is not part of SSE. llama.cpp sends it. */
  onErrorField(value: string): void;
  onTooLarge(): void;
};

/**
 * Splits the text of a body into server-sent events and bare lines: a document, an error page, a
 * message of a proxy. Content types are often wrong, so every body is read this way. The SSE parser
 * drops incomplete lines that are not fields, so it is fed complete lines only.
 */
export class BodyParser {
  #bareLines: string[] = [];
  #bareLength = 0;
  #triedLength = 0;
  #partialLine: string[] = [];
  #partialLength = 0;
  readonly #handlers: Handlers;
  readonly #maxEvent: number;
  readonly #parser: EventSourceParser;

  /** @param maxEvent maximum size of an event, in characters */
  constructor(handlers: Handlers, maxEvent = EVENT_CHARACTERS) {
    this.#handlers = handlers;
    this.#maxEvent = maxEvent;
    this.#parser = createParser({
      maxBufferSize: maxEvent,
      onEvent: ({ data, event }) => this.#handlers.onEvent(data, event),
      onError: (error) => this.#onError(error),
    });
  }

  /** Number of characters that wait for the rest of their event or document. */
  get heldLength(): number {
    return this.#bareLength + this.#partialLength;
  }

  /**
   * Whether a document outside of events may be complete: its last line looks like an end. After
   * each positive answer the document must double in size first, which keeps the total cost of
   * parsing linear. The end of the body and the next event find the document in any case.
   */
  seemsComplete(): boolean {
    const line = this.#bareLines.at(-1)?.trimEnd() ?? "";
    if (this.#bareLength < 2 * this.#triedLength) return false;
    if (!/^[{}[\]]/.test(line) || !/[}\]]$/.test(line)) return false;
    this.#triedLength = this.#bareLength;
    return true;
  }

  /** Parses the next part of the body, which may be cut anywhere. */
  feed(text: string): void {
    const end = text.endsWith("\n") ? text.length : lastLineEnd(text);
    if (end === 0) return void this.#hold(text);
    this.#parseLines(this.#takePartialLine() + text.slice(0, end));
    if (end < text.length) this.#hold(text.slice(end));
  }

  /** Parses the end of the body. Some servers omit the blank line after the last event. */
  end(): void {
    this.#parseLines(`${this.#takePartialLine()}\n\n`);
  }

  /** Complete lines outside of events that have not been taken. */
  get bareLines(): readonly string[] {
    return this.#bareLines;
  }

  takeBareLines(): readonly string[] {
    const lines = this.#bareLines;
    if (lines.length === 0) return lines;
    this.#bareLines = [];
    this.#bareLength = 0;
    this.#triedLength = 0;
    return lines;
  }

  /**
   * The lines outside of events and the last line of the body, which may be incomplete or part of
   * an event.
   */
  get openLines(): readonly string[] {
    return [...this.#bareLines, this.#partialLine.join("")];
  }

  #hold(text: string): void {
    if (text === "") return;
    this.#partialLine.push(text);
    this.#partialLength += text.length;
    if (this.#partialLength > this.#maxOf(this.#partialLine)) this.#handlers.onTooLarge();
  }

  /** Maximum size of what begins with a text: a document may be larger than an event. */
  #maxOf([start = ""]: readonly string[]): number {
    return /^\s*[{[]/.test(start) ? DOCUMENT_CHARACTERS : this.#maxEvent;
  }

  #takePartialLine(): string {
    if (this.#partialLength === 0) return "";
    const line = this.#partialLine.join("");
    this.#partialLine = [];
    this.#partialLength = 0;
    return line;
  }

  #onError({ type, field, value = "", line = "" }: ParseError): void {
    if (type === "max-buffer-size-exceeded") return void this.#handlers.onTooLarge();
    if (type !== "unknown-field") return;
    if (field?.toLowerCase() === "error") return void this.#handlers.onErrorField(value);
    this.#addBareLine(line);
  }

  /**
   * Parses complete lines. The lines of a document bypass the SSE parser, which creates an error
   * with a stack for each line that is not a field.
   */
  #parseLines(received: string): void {
    const text = withErrorData(received);
    if (this.#bareLines.length === 0 && !DOCUMENT_START.test(text))
      return void this.#parser.feed(text);
    for (const line of text.match(LINES) ?? []) {
      if (FIELD.test(line)) this.#parser.feed(line);
      else this.#addBareLine(line.trimEnd());
    }
  }

  #addBareLine(line: string): void {
    this.#bareLines.push(line);
    this.#bareLength += line.length + LINE_CHARACTERS;
    if (this.#bareLength > this.#maxOf(this.#bareLines)) this.#handlers.onTooLarge();
  }
}

/** A line that names an event after an error. */
const ERROR_NAME = /(?<=^|[\r\n])event:[^\r\n]*(?:error|exception)[ \t]*(?=[\r\n])/gi;

/**
 * Adds an empty line of data to events that are errors: without any data the SSE parser drops them.
 */
const withErrorData = (text: string): string =>
  text.includes("event:") ? text.replace(ERROR_NAME, "$&\ndata:") : text;

const DOCUMENT_START = /^[{[]/;
/** Lines with their line endings. */
const LINES = /[^\r\n]*(?:\r\n|\n|\r)/g;
/** A field of SSE, a comment, the end of an event, or anything that looks like one of them. */
const FIELD = /^(?:data|event|id|retry|error)|^:|^\s*$/i;

/** Position after the last complete line; 0 if there is none. */
const lastLineEnd = (text: string) => Math.max(text.lastIndexOf("\n"), text.lastIndexOf("\r")) + 1;
