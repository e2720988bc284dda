import { createParser } from "eventsource-parser";
import { classifyError, type ProviderErrorKind, UpstreamError } from "./errors.ts";
import type { Usage } from "./provider.ts";

/** Counts as the provider told them; input that its caches held may be counted apart. */
export type UsageCounts = Partial<Usage> & { cacheWriteTokens?: number; cacheReadTokens?: number };

/** What one event of a stream, or the whole body of a chat reply, says. */
export type ParsedEvent = {
  text?: string | undefined;
  /** Counts as far as they are told; later ones replace earlier ones. */
  usage?: UsageCounts | undefined;
  /** Something was produced that isn't shown (reasoning): not silence, but not text either. */
  active?: boolean | undefined;
  /** The finish marker: from here on the reply may end. */
  finished?: boolean | undefined;
  /** Nothing that follows matters. */
  over?: boolean | undefined;
  failed?: ProviderErrorKind | undefined;
  /** The model calls a tool, though it was offered none: without any text that is no reply. */
  callsTool?: boolean | undefined;
};

/**
 * A pure mapping from one dialect's JSON, of which nothing is certain but that it is an object. It may throw over what it
 * cannot read.
 */
export type ResponseParser = {
  parseEvent(frame: object): ParsedEvent;
  parseBody(body: object): ParsedEvent;
  /** Streams may be finished by `[DONE]` alone. */
  finishesWithDone?: boolean;
};

/** OpenAI's closing mark. Proxies close streams of other dialects with it too, and broken ones of all. */
const DONE = "[DONE]";

/** The reply as far as it has been received: bytes go in, at any cut; whole characters come out. */
export class ReplyDecoder {
  finished = false;
  isClosed = false;
  /** Content, shown or not, came with the latest bytes. */
  hadContent = false;
  fault: UpstreamError | undefined;
  /** Some servers put a finish marker on every piece: theirs ends nothing, the end of the body does. */
  #hasGoneOn = false;
  #text = "";
  #hasSpoken = false;
  /** How the provider itself said that it ended the reply; what that cost may still come. */
  #failedAs: ProviderErrorKind | undefined;
  #callsTool = false;
  readonly #usage: UsageCounts = {};
  readonly #mapping: ResponseParser;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  readonly #parser;

  /** @param eventBytes the largest event that is taken */
  constructor(mapping: ResponseParser, eventBytes: number) {
    this.#mapping = mapping;
    this.#parser = createParser({
      maxBufferSize: eventBytes,
      onEvent: ({ event, data }) => this.#read(data, event === "error"),
      onError: ({ type }) => {
        if (type === "max-buffer-size-exceeded") this.fault ??= new UpstreamError("reply too large");
      },
    });
  }

  /** The reply is whole, however its body may end. */
  get isComplete(): boolean {
    return this.finished && !this.#hasGoneOn;
  }

  /** What the reply cost, if the provider has said all of it. */
  get usage(): Usage | undefined {
    return toUsage(this.#usage);
  }

  /** What was wrong with a reply that is over; undefined when nothing was, or it only broke off. */
  get error(): UpstreamError | undefined {
    return this.fault ?? (this.#failedAs && new UpstreamError(this.#failedAs, { usage: this.usage }));
  }

  /**
   * Takes what has arrived, and returns the text in it.
   * @throws TypeError at bytes that are no UTF-8: a text with holes is none
   */
  push(bytes: Buffer): string {
    this.hadContent = false;
    this.#parser.feed(this.#decoder.decode(bytes, { stream: true }));
    return this.#take();
  }

  /** Takes the end of the body. Some servers leave out the blank line after the last event. */
  end(): string {
    if (!this.isClosed && !this.fault) this.#parser.feed("\n\n");
    if (!this.finished) this.fault ??= new UpstreamError("broke off");
    this.isClosed = true;
    return this.#take();
  }

  /** The text since the last time. A character split between two events waits for its other half. */
  #take(): string {
    const split = !this.isClosed && !this.fault && isHighSurrogate(this.#text.charCodeAt(this.#text.length - 1));
    const end = split ? this.#text.length - 1 : this.#text.length;
    const text = this.#text.slice(0, end).toWellFormed();
    this.#text = this.#text.slice(end);
    return text;
  }

  #read(data: string, isError: boolean): void {
    if (this.isClosed || this.fault || data.trim() === "") return;
    const { text, usage, active, finished, over, failed, callsTool } =
      data.trim() === DONE
        ? { finished: this.#mapping.finishesWithDone && this.#hasSpoken, over: true }
        : parseDocument(data, this.#mapping.parseEvent, isError);
    if (text) {
      if (this.finished) this.#hasGoneOn = true;
      this.#text += text;
      this.#hasSpoken = true;
    }
    if (text || active || (finished && !this.finished)) this.hadContent = true;
    Object.assign(this.#usage, usage);
    if (finished) this.finished = true;
    if (over) this.isClosed = true;
    if (callsTool) this.#callsTool = true;
    if (failed && finished) this.#failedAs ??= failed;
    else if (failed) this.fault = new UpstreamError(failed);
    else if (this.finished && this.#callsTool && !this.#hasSpoken) this.fault = new UpstreamError("unreadable reply");
  }
}

/**
 * Reads one JSON document. Errors look alike in all dialects and may come instead of any document, after HTTP said
 * 200 too; Google may wrap them in an array. Never throws.
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

/**
 * A piece of text that may be absent.
 * @throws TypeError when there is something else in its place
 */
export function requireText(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value !== "string") throw new TypeError("Text is a string.");
  return value;
}

/** Half a count is none, and neither is nonsense. What caches held was read all the same. */
export function toUsage(counts: UsageCounts = {}): Usage | undefined {
  const { inputTokens: fresh, cacheWriteTokens: written = 0, cacheReadTokens: cached = 0, outputTokens } = counts;
  if (![fresh, written, cached].every(isCount)) return undefined;
  const inputTokens = Number(fresh) + written + cached;
  return isCount(inputTokens) && isCount(outputTokens) ? { inputTokens, outputTokens } : undefined;
}

const isCount = (value: unknown): value is number =>
  Number.isInteger(value) && Number(value) >= 0 && Number(value) < 2 ** 31;

const isHighSurrogate = (code: number) => code >= 0xd800 && code <= 0xdbff;
