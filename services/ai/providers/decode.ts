import { partsIn } from "../../platform/rpc/check-json.ts";
import { parseExactly } from "../../platform/rpc/exact-json.ts";
import type { ParsedEvent, ReplyParser } from "./adapter.ts";
import { BodyParser } from "./body-parser.ts";
import { classifyError, classifyText, ProviderError, type ProviderErrorKind } from "./errors.ts";
import { PieceQueue } from "./piece-queue.ts";
import type { FinishReason, Piece, ReportedUsage, Usage, UsageDetails } from "./provider.ts";
import { ReplyEnding, type ReplyPhase } from "./reply-ending.ts";
import { TokenCounts } from "./token-counts.ts";
import { type ToolCallPart, ToolCalls } from "./tool-calls.ts";

/**
 * OpenAI's end of a stream. Proxies also send it in other dialects, and after streams that broke
 * off.
 */
const DONE = /^"?\[DONE\]"?$/i;
/** Names of events that report an error. */
const ERROR_EVENT = /(?:error|exception)\s*$/i;
/** Words in names of events that may report one. */
const DOUBTFUL_EVENT = /fail|fatal|abort|cancel|timeout|interrupt/i;
/** Characters of damaged JSON documents that error texts do not contain. */
const JSON_PUNCTUATION = /[{}[\]"]/;
/**
 * The beginning or the end of a JSON object with members, in a line that is damaged or no field of
 * an event.
 */
const JSON_PART = /\{\s*"|"\s*\}/;

/**
 * Size of a document from which its objects, lists and strings are counted, in characters, and how
 * many it may have: each takes up to 60 bytes, 20 times as much as its text.
 */
const LARGE_CHARACTERS = 1024 * 1024;
const MAX_PARTS = 1_000_000;

/** Which pieces of a reply are wanted in addition to its text. */
export type WantedPieces = { reasoning?: boolean; toolCalls?: boolean };

/**
 * Decodes one reply, whatever its framing: events, one document or several. Takes bytes that may be
 * cut anywhere and returns text of whole characters.
 */
export class ReplyDecoder {
  /** Nothing more is read: the reply has ended or failed. */
  isClosed = false;
  /** The latest bytes contained content, shown or not, or changed the phase of the ending. */
  hadContent = false;
  #text = "";
  #failure: ProviderErrorKind | undefined;
  /** The failure was reported by the finish marker, so usage may follow. */
  #hasFailedAtFinish = false;
  /** Content was skipped, such as a tool call although no tool was offered. */
  #hasSkipped = false;
  /** The finish marker was that of tool calls. */
  #endsWithToolCall = false;
  #hasReadEvent = false;
  /** Number of documents outside of events. */
  #documents = 0;
  /** The last document was a complete reply rather than a part of one. */
  #isWhole = false;
  /** Content has arrived in pieces. A complete reply after them repeats it, as MiniMax does. */
  #hasPieces = false;
  /** The text of a complete reply with its finish marker, which some proxies send twice. */
  #wholeText: string | undefined;
  /** Content has arrived after the latest counts. */
  #hasUncountedText = false;
  /** The end of the body has arrived: unreadable content was cut off. */
  #isAtEnd = false;
  readonly #ending = new ReplyEnding();
  readonly #counts = new TokenCounts();
  readonly #adapter: ReplyParser;
  readonly #isStream: boolean;
  readonly #wanted: WantedPieces;
  readonly #toolCalls = new ToolCalls();
  /** The pieces before `#text`. */
  readonly #earlier = new PieceQueue();
  readonly #decoder = new TextDecoder("utf-8", { fatal: true });
  readonly #body: BodyParser;

  /** @param isStream whether a stream was requested. If not, the first document is the reply. */
  constructor(adapter: ReplyParser, isStream = true, wanted: WantedPieces = {}) {
    this.#adapter = adapter;
    this.#body = new BodyParser(
      {
        onEvent: (data, name) => this.#readEvent(data, name),
        onErrorField: (value) => this.#readErrorText(value),
        onTooLarge: () => this.#fail("reply too large"),
      },
      adapter.maxEventCharacters,
    );
    this.#isStream = isStream;
    this.#wanted = wanted;
  }

  /** How certain it is that the reply has ended. */
  get phase(): ReplyPhase {
    return this.#hasFailedAtFinish ? "proven" : this.#ending.phase;
  }

  /** Whether the reply so far is one document, and no events. */
  get isDocument(): boolean {
    return this.#documents === 1 && !this.#hasReadEvent;
  }

  get finishReason(): FinishReason | undefined {
    const { marker } = this.#ending;
    return marker === "stop" && this.#toolCalls.hasAny ? "tool_calls" : marker;
  }

  /**
   * Undefined unless the provider has reported all counts of a reply that has ended: those of a
   * reply that is cut off, or of the text before the latest, are not final. Cached input counts as
   * input.
   */
  get usage(): Usage | undefined {
    const isFinal = (this.#ending.marker || this.#hasFailedAtFinish) && !this.#hasUncountedText;
    return isFinal ? this.#counts.usage(this.#ending.hasText) : undefined;
  }

  /** What the provider has reported so far. */
  get reported(): ReportedUsage {
    return this.#counts.reported();
  }

  /** The details of a usage. */
  detailsOf(usage: Usage): UsageDetails {
    return this.#counts.details(usage);
  }

  /**
   * Number of characters that wait for the rest of their event or document, and of the arguments of
   * tool calls.
   */
  get heldLength(): number {
    return this.#body.heldLength + this.#toolCalls.length;
  }

  /** The error in the reply so far. */
  get error(): ProviderError | undefined {
    const hasNoText = this.#ending.marker && !this.#ending.hasText && this.#hasSkipped;
    const failure =
      this.#failure ?? (hasNoText || this.#lacksToolCall ? "unreadable reply" : undefined);
    return failure && new ProviderError(failure);
  }

  get #lacksToolCall(): boolean {
    return Boolean(this.#wanted.toolCalls) && this.#endsWithToolCall && !this.#toolCalls.hasAny;
  }

  /** The wanted pieces before the text that `push` or `end` has returned. */
  takePieces(): readonly Piece[] {
    return this.#earlier.take(this.isClosed);
  }

  /**
   * The pieces that complete the tool calls of a good reply.
   * @throws ProviderError if there is a call without a name
   */
  lastPieces(): readonly Piece[] {
    if (this.error || this.finishReason !== "tool_calls") return [];
    const pieces = this.#toolCalls.end();
    if (!pieces) throw new ProviderError("unreadable reply");
    return pieces;
  }

  /**
   * Decodes the next part of the body.
   * @returns its text, which follows `takePieces`
   */
  push(bytes: Buffer): string {
    this.hadContent = false;
    const before = this.phase;
    try {
      this.#body.feed(this.#decoder.decode(bytes, { stream: true }));
    } catch {
      this.#readUnreadable(); // not UTF-8
    }
    if (this.#body.seemsComplete()) this.#readDocuments();
    if (this.phase !== before) this.hadContent = true;
    return this.#take();
  }

  /**
   * Decodes the end of the body.
   * @returns the remaining text
   */
  end(): string {
    if (!this.isClosed) this.#readEnd();
    this.isClosed = true;
    return this.#take();
  }

  /**
   * Decides whether a reply ends although its body does not: the connection broke or went silent.
   * An error outside of events is the cause unless it follows a finish marker.
   * @returns whether the reply has ended, well or with an error
   */
  endsWith(what: "a break" | "silence"): boolean {
    const { phase } = this;
    const isOver = phase !== "open" && (phase !== "doubtful" || what === "silence");
    const mayHaveFailed = !this.isClosed && (!isOver || this.#mayGoOn);
    if (mayHaveFailed) this.#failure ??= failureIn(this.#body.openLines);
    if (isOver) this.isClosed = true;
    return isOver || this.#failure !== undefined;
  }

  #readEnd(): void {
    this.#isAtEnd = true;
    try {
      this.#body.feed(this.#decoder.decode());
      this.#body.end();
    } catch {
      this.#readUnreadable(); // ends inside a character
    }
    this.#readBareLines();
    if (this.#isWhole && this.isDocument) this.#closeWithoutMarker();
    if (this.#ending.marker || this.#hasFailedAtFinish) return;
    const isForeign = this.#ending.isSuspect && !this.#hasReadEvent && this.#documents === 0;
    this.#fail(isForeign ? "unreadable reply" : "broke off");
  }

  #fail(kind: ProviderErrorKind): void {
    this.#failure ??= kind;
    this.isClosed = true;
  }

  /**
   * Whether what follows may be part of the reply: there is no valid finish marker, or the reply
   * has already continued after one.
   */
  get #mayGoOn(): boolean {
    return this.phase === "open" || (this.#ending.hasGoneOn && !this.#hasFailedAtFinish);
  }

  /** Records unreadable content, which after the finish marker is not a failure. */
  #readUnreadable(
    kind: ProviderErrorKind = this.#isAtEnd ? "broke off" : "unreadable reply",
  ): void {
    if (this.#mayGoOn) this.#fail(kind);
  }

  /** Returns the text since the last call. Half of a surrogate pair waits for its other half. */
  #take(): string {
    const split = !this.isClosed && isHighSurrogate(this.#text.charCodeAt(this.#text.length - 1));
    const end = split ? this.#text.length - 1 : this.#text.length;
    const text = this.#text.slice(0, end).toWellFormed();
    this.#text = this.#text.slice(end);
    return text;
  }

  #readEvent(data: string, name: string | undefined): void {
    if (this.#body.bareLines.length > 0) this.#readBareLines();
    if (this.isClosed) return;
    const text = data.trim();
    const isError = name !== undefined && ERROR_EVENT.test(name);
    if (name !== undefined && DOUBTFUL_EVENT.test(name)) this.#ending.isSuspect = true;
    if (!text.startsWith("{")) return void this.#readOther(text, name, isError);
    this.#hasReadEvent = true;
    const document = parseJson(text);
    if (document !== undefined) this.#readDocument(document, isError, isNamed(name));
    else if (isError) this.#fail("broke off");
    else this.#readUnreadable();
  }

  /**
   * Reads an event that is not an object: a closing frame, a keep-alive, an error as plain text.
   */
  #readOther(text: string, name: string | undefined, isError: boolean): void {
    if (DONE.test(text)) return void this.#close(this.#adapter.finishesWithDone);
    const value = parseJson(text);
    const words = typeof value === "string" ? value.trim() : text;
    if (isError) return void this.#readErrorText(words);
    if (words === "" || words.startsWith(":")) return;
    if (Array.isArray(value)) return void this.#readArray(value, isNamed(name));
    if (JSON_PUNCTUATION.test(words)) return void this.#readUnreadable();
    if (isNamed(name)) return;
    if (value !== undefined && typeof value !== "string") return void this.#readUnreadable();
    this.#readPlainText(words);
  }

  /** Reads plain text, which can only be an error. */
  #readPlainText(text: string): void {
    if (!this.#mayGoOn) return;
    const failure = classifyText(text);
    if (failure) this.#fail(failure);
    else this.#ending.isSuspect = true;
  }

  /** Reads text that the server labels as an error. */
  #readErrorText(text: string): void {
    if (this.isClosed) return;
    const error = parseJson(text);
    const named = isObject(error) ? errorIn(error, true) : classifyText(text);
    this.#fail(named ?? "broke off");
  }

  /** @param isNamed whether it comes with an event that has its own name, such as a ping */
  #readDocument(document: unknown, isError: boolean, isNamed = false): void {
    if (typeof document === "string") return void this.#readPlainText(document);
    if (Array.isArray(document)) return void this.#readArray(document);
    this.#apply(parseDocument(document, this.#adapter, isError), isNamed);
  }

  /** Reads an array of events, which Gemini sends without `alt=sse`. */
  #readArray(documents: readonly unknown[], isNamed = false): void {
    for (const document of documents)
      this.#apply(parseDocument(document, this.#adapter, false), isNamed);
  }

  /**
   * Reads the lines outside of events if they are one document, or a document per line.
   * @returns whether they are
   */
  #readDocuments(): boolean {
    const documents = documentsIn(this.#body.bareLines);
    if (!documents) return false;
    this.#body.takeBareLines();
    for (const document of documents) this.#readDocument(document, false);
    this.#documents += documents.length;
    return true;
  }

  /** Reads the lines outside of events once no more of them follow. */
  #readBareLines(): void {
    if (this.#body.bareLines.length === 0 || this.#readDocuments()) return;
    const lines = this.#body.takeBareLines();
    for (const [index, line] of lines.entries())
      this.#readBareLine(line, this.#isAtEnd && index === lines.length - 1);
  }

  /** @param isLast whether the body ends with the line, so that the rest of it may be missing */
  #readBareLine(line: string, isLast: boolean): void {
    if (this.isClosed) return;
    const document = /^[{[]/.test(line) ? parseJson(line) : undefined;
    if (document !== undefined) return void this.#readDocument(document, false);
    if (!JSON_PART.test(line)) return void this.#readPlainText(line);
    this.#readUnreadable(isLast && this.#hasPieces ? "broke off" : "unreadable reply");
  }

  /** @param isMarker whether the closing frame may replace the finish marker */
  #close(isMarker = false): void {
    if (isMarker) this.#closeWithoutMarker();
    if (!this.#ending.marker && !this.#failure) this.#fail("broke off");
    this.isClosed = true;
  }

  /** Takes the end of the reply for its finish marker, unless a tool call is cut off. */
  #closeWithoutMarker(): void {
    if (this.#toolCalls.areComplete) this.#ending.closeWithoutMarker();
  }

  #apply(event: ParsedEvent, isNamed = false): void {
    if (this.isClosed) return;
    const { failed, finish, foreign } = event;
    if (foreign && !isNamed) this.#ending.isSuspect = true;
    if (event.opening && this.#hasPieces) return void this.#fail("unreadable reply");
    if (failed === "unreadable reply") return void this.#readUnreadable(failed);
    this.#addContent(event);
    if (failed) return void this.#fail(failed);
    if (finish && "failure" in finish) {
      this.#failure ??= finish.failure;
      this.#hasFailedAtFinish = true;
    }
    if (event.over) this.#close(true);
  }

  #addContent(received: ParsedEvent): void {
    const { usage, finish, whole = false } = received;
    const event = whole && this.#isRepeated(received) ? withoutContent(received) : received;
    const marker = finish && "reason" in finish ? finish.reason : undefined;
    const hasContent = this.#addPieces(event) || Boolean(event.text);
    this.#hasPieces ||= hasContent && !whole;
    if (hasContent || event.active || (marker && !this.#ending.marker)) this.hadContent = true;
    this.#addCounts(usage, hasContent);
    this.#ending.add({
      hasText: hasContent,
      marker,
      hasUsage: this.#counts.usage(true) !== undefined,
      isWhole: (whole || !this.#isStream) && !this.#hasReadEvent && this.#documents === 0,
    });
    this.#addOmissions(event);
    this.#isWhole = whole;
  }

  /** Whether a complete reply repeats what has been read. */
  #isRepeated({ text, finish }: ParsedEvent): boolean {
    if (this.#hasPieces) return true;
    const isSame = finish !== undefined && text !== "" && text === this.#wholeText;
    if (finish) this.#wholeText = text;
    return isSame;
  }

  #addCounts(usage: ParsedEvent["usage"], hasContent: boolean): void {
    if (usage) this.#counts.add(usage);
    const isCounted = typeof usage?.outputTokens === "number";
    if (isCounted || hasContent) this.#hasUncountedText = !isCounted;
  }

  /** Records which parts of an event are omitted, and what it announces. */
  #addOmissions({ skipped, toolCalls, endsWithToolCall }: ParsedEvent): void {
    const hasToolCalls = Boolean(toolCalls?.length);
    if (skipped || (hasToolCalls && !this.#wanted.toolCalls)) this.#hasSkipped = true;
    if (endsWithToolCall) this.#endsWithToolCall = true;
  }

  /**
   * Adds the text of an event and the pieces that are wanted.
   * @returns whether there are tool calls among them
   */
  #addPieces({ text, reasoning, toolCalls = [] }: ParsedEvent): boolean {
    if (reasoning && this.#wanted.reasoning) this.#addPiece({ kind: "reasoning", text: reasoning });
    if (text) this.#text += text;
    if (toolCalls.length === 0 || !this.#wanted.toolCalls) return false;
    this.#addToolCalls(toolCalls);
    return true;
  }

  #addToolCalls(parts: readonly ToolCallPart[]): void {
    try {
      for (const part of parts)
        for (const piece of this.#toolCalls.add(part)) this.#addPiece(piece);
    } catch {
      this.#readUnreadable("unreadable reply");
    }
  }

  /** Adds a piece after the text so far. */
  #addPiece(piece: Piece): void {
    this.#earlier.add({ kind: "text", text: this.#take() });
    this.#earlier.add(piece);
  }
}

/** Whether an event has its own name. Without one it is a `message`. */
const isNamed = (name: string | undefined) => name !== undefined && name !== "message";

const withoutContent = ({ usage, finish, whole, over, failed }: ParsedEvent): ParsedEvent => ({
  ...{ usage, finish, whole, over, failed },
});

const isHighSurrogate = (code: number) => code >= 0xd800 && code <= 0xdbff;

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;

/**
 * Parses a JSON document. Returns undefined if the text is not valid JSON, or would take many times
 * its size.
 */
function parseJson(text: string): unknown {
  if (text.length > LARGE_CHARACTERS && partsIn(text) > MAX_PARTS) return undefined;
  try {
    return parseExactly(text);
  } catch {
    return undefined;
  }
}

/**
 * Parses lines as one document, or as a document per line. Returns undefined if they are neither.
 */
function documentsIn(lines: readonly string[]): unknown[] | undefined {
  const whole = parseJson(lines.join("\n"));
  if (whole !== undefined) return [whole];
  if (!lines.every((line) => line.startsWith("{"))) return undefined;
  const documents = lines.map(parseJson);
  return documents.every(isObject) ? documents : undefined;
}

/**
 * The failure that a document reports. Errors look alike in all dialects and may replace any
 * document, also with HTTP status 200.
 */
function errorIn(document: object, isError: boolean): ProviderErrorKind | undefined {
  const { error, type, object } = document as { error?: unknown; type?: unknown; object?: unknown };
  const hasError = error || isError || type === "error" || object === "error";
  return hasError ? classifyError(document) : undefined;
}

/** The failure that lines outside of events report. The last line may be incomplete. */
function failureIn(lines: readonly string[]): ProviderErrorKind | undefined {
  const document = parseJson(lines.join(""));
  if (isObject(document)) return errorIn(document, false);
  return lines.map(classifyText).find((failure) => failure !== undefined);
}

/** Parses one document. Never throws. */
function parseDocument(document: unknown, adapter: ReplyParser, isError: boolean): ParsedEvent {
  if (!isObject(document) || Array.isArray(document)) return { failed: "unreadable reply" };
  const failed = errorIn(document, isError);
  if (failed) return { failed };
  try {
    return adapter.parse(document);
  } catch {
    return { failed: "unreadable reply" };
  }
}
