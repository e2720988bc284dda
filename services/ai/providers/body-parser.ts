import { createParser, type ParseError } from "eventsource-parser";

/** Largest event of a stream, in characters. */
const EVENT_CHARACTERS = 1024 * 1024;
/** Largest document outside of events, in characters. */
const DOCUMENT_CHARACTERS = 16 * 1024 * 1024;

type Handlers = {
  onEvent(data: string, name: string | undefined): void;
  /** A field `error`, which SSE does not have. llama.cpp sends it. */
  onErrorField(value: string): void;
  onTooLarge(): void;
};

/**
 * Splits the text of a body into events of SSE and into what is none: a document, an error page, a
 * message of a proxy. Labels of bodies are often wrong, so that every body is read so. The parser of
 * events drops incomplete lines that are none of its fields: it gets complete lines only.
 */
export class BodyParser {
  #bareLines: string[] = [];
  #bareLength = 0;
  #triedLength = 0;
  #partialLine: string[] = [];
  #partialLength = 0;
  readonly #handlers: Handlers;
  readonly #parser = createParser({
    maxBufferSize: EVENT_CHARACTERS,
    onEvent: ({ data, event }) => this.#handlers.onEvent(data, event),
    onError: (error) => this.#onError(error),
  });

  constructor(handlers: Handlers) {
    this.#handlers = handlers;
  }

  /** The number of characters that wait for the rest of their event or document. */
  get heldLength(): number {
    return this.#bareLength + this.#partialLength;
  }

  /**
   * Whether a document outside of events may be complete: its last line looks like an end. After
   * each time that it does, the document must double, so that parsing it costs no more than its
   * length. The end of the body and the next event find the document in any case.
   */
  seemsComplete(): boolean {
    const line = this.#bareLines.at(-1)?.trimEnd() ?? "";
    if (this.#bareLength < 2 * this.#triedLength) return false;
    if (!/^[{}[\]]/.test(line) || !/[}\]]$/.test(line)) return false;
    this.#triedLength = this.#bareLength;
    return true;
  }

  /** Parses what has arrived, cut anywhere. */
  feed(text: string): void {
    const end = text.endsWith("\n") ? text.length : lastLineEnd(text);
    if (end === 0) return void this.#hold(text);
    this.#parseLines(this.#takePartialLine() + text.slice(0, end));
    if (end < text.length) this.#hold(text.slice(end));
  }

  /** Parses the end of the body. Some servers leave out the blank line after the last event. */
  end(): void {
    this.#parser.feed(`${this.#takePartialLine()}\n\n`);
  }

  /** The complete lines outside of events that have not been taken. */
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

  /** The lines outside of events, and the last line of the body, which may be cut or an event's. */
  get openLines(): readonly string[] {
    return [...this.#bareLines, this.#partialLine.join("")];
  }

  #hold(text: string): void {
    if (text === "") return;
    this.#partialLine.push(text);
    this.#partialLength += text.length;
    const isDocument = /^[{[]/.test(this.#partialLine[0] ?? "");
    const max = isDocument ? DOCUMENT_CHARACTERS : EVENT_CHARACTERS;
    if (this.#partialLength > max) this.#handlers.onTooLarge();
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
   * Parses complete lines. The parser makes an error of each line that is no field, with its stack:
   * the lines of a document do not go there.
   */
  #parseLines(text: string): void {
    if (this.#bareLines.length === 0 && !DOCUMENT_START.test(text))
      return void this.#parser.feed(text);
    for (const line of text.match(LINES) ?? []) {
      if (FIELD.test(line)) this.#parser.feed(line);
      else this.#addBareLine(line.trimEnd());
    }
  }

  #addBareLine(line: string): void {
    this.#bareLines.push(line);
    this.#bareLength += line.length + 1;
    if (this.#bareLength > DOCUMENT_CHARACTERS) this.#handlers.onTooLarge();
  }
}

const DOCUMENT_START = /^[{[]/;
/** Lines with their ends. */
const LINES = /[^\r\n]*(?:\r\n|\n|\r)/g;
/** A field of SSE, a comment, the end of an event, or what looks like any of them. */
const FIELD = /^(?:data|event|id|retry|error)|^:|^\s*$/i;

/** The position after the last complete line; 0 if there is none. */
const lastLineEnd = (text: string) => Math.max(text.lastIndexOf("\n"), text.lastIndexOf("\r")) + 1;
