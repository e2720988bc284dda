import { createParser } from "eventsource-parser";
import { classifyError, ProviderError, type ProviderErrorKind } from "./errors.ts";
import type { FinishReason, Usage } from "./provider.ts";

/** Token counts as the provider reports them. Input that its caches held may be counted apart. */
export type UsageCounts = Partial<Usage> & { cacheWriteTokens?: number; cacheReadTokens?: number };

/** What one event of a stream, or the body of a complete reply, says. */
export type ParsedEvent = {
  text?: string | undefined;
  /** Counts as far as they are reported. Later ones replace earlier ones, but output that was counted stays so. */
  usage?: UsageCounts | undefined;
  /** Something was produced that is not shown (reasoning): neither silence nor text. */
  active?: boolean | undefined;
  /** The finish marker. From here on the reply may end. */
  finished?: FinishReason | false | undefined;
  /** Nothing that follows matters. */
  over?: boolean | undefined;
  failed?: ProviderErrorKind | undefined;
  /** The model calls a tool although none was offered. Without any text this is no reply. */
  callsTool?: boolean | undefined;
};

/**
 * Maps the JSON of one dialect. Pure functions: nothing is certain of their argument but that it is an object, and they
 * may throw over what they cannot read.
 */
export type ResponseParser = {
  parseEvent(frame: object): ParsedEvent;
  parseBody(body: object): ParsedEvent;
  /** `[DONE]` alone may finish a stream. */
  finishesWithDone?: boolean;
};

/** OpenAI's end of a stream. Proxies send it in other dialects too, and after broken streams of all. */
const DONE = "[DONE]";

/** Decodes a streamed reply: bytes go in, cut anywhere; text of whole characters comes out. */
export class ReplyDecoder {
  finished = false;
  /** Nothing more is read: the reply has ended, or has failed. */
  isClosed = false;
  /** The latest bytes had content, shown or not. */
  hadContent = false;
  #fault: ProviderError | undefined;
  /** Text followed the finish marker: some servers put one on every piece. Then only the end of the body is the end. */
  #hasGoneOn = false;
  #text = "";
  #hasSpoken = false;
  /** The failure with which the provider finished the reply. The usage of that may still follow. */
  #failedAs: ProviderErrorKind | undefined;
  #callsTool = false;
  #isEnding = false;
  readonly #usage: UsageCounts = {};
  readonly #dialect: ResponseParser;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  readonly #parser;

  /** @param eventBytes largest event accepted */
  constructor(dialect: ResponseParser, eventBytes: number) {
    this.#dialect = dialect;
    this.#parser = createParser({
      maxBufferSize: eventBytes,
      onEvent: ({ event, data }) => this.#read(data, event === "error"),
      onError: ({ type }) => {
        if (type === "max-buffer-size-exceeded") this.#fail(new ProviderError("reply too large"));
      },
    });
  }

  /** The reply is complete, however its body ends. */
  get isComplete(): boolean {
    return this.finished && !this.#hasGoneOn;
  }

  /** Undefined unless the provider has reported all of it. */
  get usage(): Usage | undefined {
    return toUsage(this.#usage);
  }

  /** What is wrong with the reply, as far as it has come. */
  get error(): ProviderError | undefined {
    const onlyCalls = this.finished && this.#callsTool && !this.#hasSpoken;
    const failed = this.#failedAs ?? (onlyCalls ? "unreadable reply" : undefined);
    return this.#fault ?? (failed && new ProviderError(failed, { usage: this.usage }));
  }

  /** Decodes what has arrived. @returns the text in it */
  push(bytes: Buffer): string {
    this.hadContent = false;
    try {
      this.#parser.feed(this.#decoder.decode(bytes, { stream: true }));
    } catch {
      this.#fail(new ProviderError("unreadable reply")); // not UTF-8
    }
    return this.#take();
  }

  /** Decodes the end of the body. Some servers leave out the blank line after the last event. */
  end(): string {
    this.#isEnding = true;
    try {
      if (!this.isClosed) this.#parser.feed(`${this.#decoder.decode()}\n\n`);
    } catch {
      if (!this.isComplete) this.#fail(new ProviderError("broke off")); // inside a character
    }
    if (!this.finished) this.#fail(new ProviderError("broke off"));
    this.isClosed = true;
    return this.#take();
  }

  #fail(error: ProviderError): void {
    this.#fault ??= error;
    this.isClosed = true;
  }

  /** The text since the last time. Half of a surrogate pair waits for its other half. */
  #take(): string {
    const split = !this.isClosed && isHighSurrogate(this.#text.charCodeAt(this.#text.length - 1));
    const end = split ? this.#text.length - 1 : this.#text.length;
    const text = this.#text.slice(0, end).toWellFormed();
    this.#text = this.#text.slice(end);
    return text;
  }

  #read(data: string, isError: boolean): void {
    if (this.isClosed || data.trim() === "") return;
    const { text, usage, active, finished, over, failed, callsTool } =
      data.trim() === DONE
        ? { finished: this.#dialect.finishesWithDone && this.#hasSpoken && "stop", over: true }
        : parseDocument(data, this.#dialect.parseEvent, isError);
    if (text) {
      if (this.finished) this.#hasGoneOn = true;
      this.#text += text;
      this.#hasSpoken = true;
    }
    if (text || active || (finished && !this.finished)) this.hadContent = true;
    const { outputTokens: before = 0 } = this.#usage;
    Object.assign(this.#usage, usage);
    if (Number(this.#usage.outputTokens) < before) this.#usage.outputTokens = before;
    if (finished) this.finished = true;
    if (over) this.isClosed = true;
    if (callsTool) this.#callsTool = true;
    const isCut = this.#isEnding && failed === "unreadable reply"; // inside its last event
    if (isCut && this.isComplete) return;
    if (failed && finished) this.#failedAs ??= failed;
    else if (failed) this.#fail(new ProviderError(isCut ? "broke off" : failed));
  }
}

/**
 * Parses one JSON document. Errors look alike in all dialects and may come instead of any document, with HTTP status 200
 * too. Google may wrap them in an array. Never throws.
 */
export function parseDocument(json: string, map: (document: object) => ParsedEvent, isError = false): ParsedEvent {
  let document: unknown;
  try {
    const parsed: unknown = JSON.parse(json);
    document = Array.isArray(parsed) ? parsed[0] : parsed;
  } catch {
    return { failed: isError ? "broke off" : "unreadable reply" };
  }
  if (typeof document !== "object" || document === null) return { failed: "unreadable reply" };
  const { error, type, object } = document as { error?: unknown; type?: unknown; object?: unknown };
  if (error || isError || type === "error" || object === "error") return { failed: classifyError(error || document) };
  try {
    return map(document);
  } catch {
    return { failed: "unreadable reply" };
  }
}

/** The finish reason that a dialect names so, or any of those that mean the maximum number of tokens. */
export const finishReasonOf = (reason: string | null | undefined, atMaximum: readonly string[]) =>
  reason ? (atMaximum.includes(reason) ? "length" : "stop") : undefined;

/** Text that may be absent. @throws TypeError for any other type */
export function requireText(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value !== "string") throw new TypeError("Text is a string.");
  return value;
}

/** Complete counts, or undefined. Input that caches held counts as input. */
export function toUsage(counts: UsageCounts = {}): Usage | undefined {
  const { inputTokens: fresh, cacheWriteTokens: written = 0, cacheReadTokens: cached = 0, outputTokens } = counts;
  if (![fresh, written, cached].every(isCount)) return undefined;
  const inputTokens = Number(fresh) + written + cached;
  return isCount(inputTokens) && isCount(outputTokens) ? { inputTokens, outputTokens } : undefined;
}

const isCount = (value: unknown): value is number =>
  Number.isInteger(value) && Number(value) >= 0 && Number(value) < 2 ** 31;

const isHighSurrogate = (code: number) => code >= 0xd800 && code <= 0xdbff;
