import { createParser } from "eventsource-parser";
import type { Adapter, ParsedEvent, UsageCounts } from "./adapter.ts";
import { classifyError, ProviderError, type ProviderErrorKind } from "./errors.ts";
import type { FinishReason, Usage } from "./provider.ts";

/**
 * OpenAI's end of a stream. Proxies send it in other dialects too, and after broken streams of all.
 */
const DONE = "[DONE]";

/** Largest event of a stream. Bytes. */
const EVENT_BYTES = 1024 * 1024;

/** Decodes one reply: bytes go in, of a stream cut anywhere; text of whole characters comes out. */
export class ReplyDecoder {
  finishReason: FinishReason | undefined;
  /** Nothing more is read: the reply has ended, or has failed. */
  isClosed = false;
  /** The latest bytes had content, shown or not. */
  hadContent = false;
  /**
   * Text followed the finish marker: some servers put one on every piece. Then only the end of the
   * body is the end.
   */
  #hasGoneOn = false;
  #text = "";
  #hasSpoken = false;
  #failure: ProviderErrorKind | undefined;
  #callsTool = false;
  readonly #counts: UsageCounts = {};
  readonly #adapter: Adapter;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true });
  readonly #parser = createParser({
    maxBufferSize: EVENT_BYTES,
    onEvent: ({ event, data }) => this.#readEvent(data, event === "error"),
    onError: ({ type }) => {
      if (type === "max-buffer-size-exceeded") this.#fail("reply too large");
    },
  });

  constructor(adapter: Adapter) {
    this.#adapter = adapter;
  }

  /** The reply is complete, however its body ends. */
  get isComplete(): boolean {
    return this.finishReason !== undefined && !this.#hasGoneOn;
  }

  /**
   * Undefined unless the provider has reported all of it. Input that caches held counts as input.
   */
  get usage(): Usage | undefined {
    const {
      inputTokens: fresh,
      cacheWriteTokens = 0,
      cacheReadTokens = 0,
      outputTokens,
    } = this.#counts;
    const inputs = [fresh, cacheWriteTokens, cacheReadTokens];
    if (!inputs.every(isCount)) return undefined;
    const inputTokens = inputs.reduce((sum, count) => sum + count, 0);
    return isCount(inputTokens) && isCount(outputTokens)
      ? { inputTokens, outputTokens }
      : undefined;
  }

  /** What is wrong with the reply, as far as it has come. */
  get error(): ProviderError | undefined {
    const onlyCalls = this.finishReason && this.#callsTool && !this.#hasSpoken;
    const failure = this.#failure ?? (onlyCalls ? "unreadable reply" : undefined);
    return failure && new ProviderError(failure);
  }

  /**
   * Decodes what has arrived of a stream.
   * @returns the text in it
   */
  push(bytes: Buffer): string {
    this.hadContent = false;
    try {
      this.#parser.feed(this.#decoder.decode(bytes, { stream: true }));
    } catch {
      this.#fail("unreadable reply"); // not UTF-8
    }
    return this.#take();
  }

  /** Decodes the end of a stream. Some servers leave out the blank line after the last event. */
  end(): string {
    const wasOpen = !this.isClosed;
    try {
      if (wasOpen) this.#parser.feed(`${this.#decoder.decode()}\n\n`);
    } catch {
      this.#fail("unreadable reply"); // not UTF-8
    }
    const isCut = wasOpen && this.#failure === "unreadable reply"; // inside its last event, or a character
    if (isCut) this.#failure = undefined;
    if (!this.finishReason || (isCut && !this.isComplete)) this.#fail("broke off");
    this.isClosed = true;
    return this.#take();
  }

  /**
   * Decodes a reply that comes as one JSON document.
   * @returns its text
   */
  readDocument(bytes: Buffer): string {
    try {
      this.#apply(parseDocument(this.#decoder.decode(bytes), this.#adapter));
    } catch {
      this.#fail("unreadable reply"); // not UTF-8
    }
    this.#readEvent(DONE, false);
    return this.end();
  }

  #fail(kind: ProviderErrorKind): void {
    this.#failure ??= kind;
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

  #readEvent(data: string, isError: boolean): void {
    const trimmed = data.trim();
    if (trimmed === "") return;
    if (trimmed !== DONE) this.#apply(parseDocument(data, this.#adapter, isError));
    else
      this.#apply({
        finished: this.#adapter.finishesWithDone && this.#hasSpoken ? "stop" : undefined,
        over: true,
      });
  }

  #apply({ text, usage, active, finished, over, failed, callsTool }: ParsedEvent): void {
    if (this.isClosed) return;
    if (text) {
      if (this.finishReason) this.#hasGoneOn = true;
      this.#text += text;
      this.#hasSpoken = true;
    }
    if (text || active || (finished && !this.finishReason)) this.hadContent = true;
    if (usage) this.#count(usage);
    this.finishReason ??= finished;
    if (over) this.isClosed = true;
    if (callsTool) this.#callsTool = true;
    if (!failed) return;
    this.#failure ??= failed;
    if (!finished) this.isClosed = true; // otherwise the usage may still follow
  }

  /**
   * Later counts replace earlier ones, unless they are absent or null. Output that was counted
   * stays so.
   */
  #count(usage: UsageCounts): void {
    const { outputTokens: before } = this.#counts;
    const reported = Object.entries(usage).filter(
      ([, count]) => count !== undefined && count !== null,
    );
    Object.assign(this.#counts, Object.fromEntries(reported));
    if (Number(this.#counts.outputTokens) < Number(before)) this.#counts.outputTokens = before;
  }
}

const isCount = (value: unknown): value is number =>
  Number.isInteger(value) && Number(value) >= 0 && Number(value) < 2 ** 31;

const isHighSurrogate = (code: number) => code >= 0xd800 && code <= 0xdbff;

/**
 * Parses one JSON document. Errors look alike in all dialects and may come instead of any document,
 * with HTTP status 200 too. Google may wrap them in an array. Never throws.
 */
function parseDocument(json: string, { parse }: Adapter, isError = false): ParsedEvent {
  let document: unknown;
  try {
    const parsed: unknown = JSON.parse(json);
    document = Array.isArray(parsed) ? parsed[0] : parsed;
  } catch {
    return { failed: isError ? "broke off" : "unreadable reply" };
  }
  if (typeof document !== "object" || document === null) return { failed: "unreadable reply" };
  const { error, type, object } = document as { error?: unknown; type?: unknown; object?: unknown };
  if (error || isError || type === "error" || object === "error")
    return { failed: classifyError(error || document) };
  try {
    return parse(document);
  } catch {
    return { failed: "unreadable reply" };
  }
}
