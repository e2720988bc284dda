import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { addAbortSignal } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import {
  classifyError,
  isPromptTooLong,
  mayBeRead,
  ProviderError,
  type ProviderErrorKind,
  retryDelayOf,
  toProviderError,
} from "./errors.ts";
import type { AttemptOutcome } from "./health.ts";
import { decompressed, readAll } from "./http-client.ts";
import type { CallProgress, ProviderBounds } from "./provider.ts";
import type { ProviderKey, ProviderKeys } from "./provider-keys.ts";

/** Maximum size of the body of an error response, in bytes. Larger ones are not parsed. */
const ERROR_BYTES = 64 * 1024;

/** Where a call may go: a provider, and how to send the call to it. */
export type Destination = {
  /** For the log, if the provider answers that it does not exist. */
  path: string;
  keys: ProviderKeys;
  /** Sends the request once. Resolves when the status line has arrived. */
  post(key: ProviderKey, signal: AbortSignal): Promise<IncomingMessage>;
  /** Called when an attempt begins. */
  onBegin(): void;
  /** Called once with the outcome of the attempt. */
  onEnd(outcome: AttemptOutcome): void;
};

/**
 * Failures after which a call continues with its next destination. Others would occur there too.
 */
const PASSED_ON: ReadonlySet<ProviderErrorKind> = new Set([
  "rate limited",
  "quota exhausted",
  "overloaded",
  "internal error",
  "unreachable",
  "timed out",
  "refused the key",
]);

/** The attempts of a call: where it is, and how it has failed so far. */
class Attempts {
  readonly #destinationOf: (index: number) => Destination;
  readonly #count: number;
  readonly #mostRereads: number;
  /** How many of them the provider may have read. */
  #reads = 0;
  /** The keys that the call has used: a key that returns immediately would be used endlessly. */
  readonly #tried = new Set<ProviderKey>();
  #otherKey: ProviderKey | undefined;
  index = 0;
  to: Destination;
  /** How the latest attempt has failed. */
  failed: ProviderErrorKind | undefined;
  /** No other attempt may follow. */
  isOver = false;
  /** Number of retries at the last destination. */
  retried = 0;

  constructor(destinationOf: (index: number) => Destination, count: number, mostRereads: number) {
    this.#destinationOf = destinationOf;
    this.#count = count;
    this.#mostRereads = mostRereads;
    this.to = destinationOf(0);
  }

  /** The key for the next attempt. */
  takeKey(): ProviderKey {
    const key = this.#otherKey ?? this.to.keys.pick();
    this.#tried.add(key);
    return key;
  }

  /**
   * Records a failure.
   * @returns whether the call continues immediately, with another key or at another destination
   */
  goesOn(key: ProviderKey, error: ProviderError): boolean {
    this.failed = error.kind;
    if (mayBeRead(error)) this.#reads++;
    this.#otherKey = this.to.keys.refuse(key, error, this.#tried);
    const hasOtherKey = this.#otherKey !== undefined;
    const isLast = this.index + 1 === this.#count;
    this.isOver =
      this.#reads > this.#mostRereads || !(hasOtherKey || isLast || PASSED_ON.has(error.kind));
    if (this.isOver) return false;
    if (!hasOtherKey && !isLast) this.to = this.#destinationOf(++this.index);
    return hasOtherKey || !isLast;
  }
}

/**
 * A call and its reply, from the first attempt to the last byte: the abort signals of the HTTP
 * requests, a total time-out and an idle time-out.
 */
export class UpstreamRequest {
  /** Fires when the client disconnects, and when the time is up. */
  readonly #call = new AbortController();
  #attempt = new AbortController();
  /** The destination of the attempt in progress. */
  #current: Destination | undefined;
  readonly #client: AbortSignal;
  readonly #bounds: ProviderBounds;
  readonly #onProgress: (progress: CallProgress) => void;
  readonly #startedAt = performance.now();
  readonly #total: NodeJS.Timeout;
  #idle: NodeJS.Timeout | undefined;
  #idleMs = 0;
  #isIdlePaused = false;
  /** The provider has certainly not read the input of the latest attempt. */
  #isUnread = true;
  /** The idle timer has ended the attempt. */
  isSilent = false;

  /** @param client fires when the reply is no longer wanted */
  constructor(
    client: AbortSignal,
    bounds: ProviderBounds,
    onProgress: (progress: CallProgress) => void,
  ) {
    this.#client = client;
    this.#bounds = bounds;
    this.#onProgress = onProgress;
    this.#total = setTimeout(this.#onTotal, bounds.totalMs);
    if (client.aborted) this.#onClientGone();
    else client.addEventListener("abort", this.#onClientGone);
  }

  /**
   * Fires when the client disconnects, at a time-out, and on an early end of the latest attempt.
   */
  get signal(): AbortSignal {
    return this.#attempt.signal;
  }

  /**
   * Sends the call until a successful response begins to arrive. An attempt that fails before its
   * first byte is repeated immediately with the next key or to the next destination, if there is
   * one. At the last one, temporary failures are retried: with exponential backoff and jitter, or
   * longer if the provider asks for it, as far as the time limits allow.
   * @param destinationOf returns a destination, of `count`
   * @param mostRereads maximum number of attempts that are repeated although the provider may have
   * read them
   * @returns the response, of which at least one byte has arrived, and the index of its destination
   * @throws ProviderError, or the reason of the client's signal
   */
  async send(
    destinationOf: (index: number) => Destination,
    count: number,
    isStream: boolean,
    mostRereads = Number.POSITIVE_INFINITY,
  ): Promise<{ message: IncomingMessage; index: number }> {
    const { firstByteMs, totalMs, afterOutcomeMs } = this.#bounds;
    // A reply that is not streamed begins when it is complete, which may take minutes.
    const attemptMs = isStream ? firstByteMs : totalMs;
    let isAnswered = false;
    const attempts = new Attempts(destinationOf, count, mostRereads);
    this.#call.signal.throwIfAborted();
    this.#onProgress({ kind: "sending", isUnread: () => this.#isUnread });
    for (;;) {
      const { to, index, failed } = attempts;
      if (failed !== undefined)
        this.#onProgress({ kind: "retrying", target: index, mayBeRead: !this.#isUnread });
      this.#call.signal.throwIfAborted(); // before the provider can have read anything
      const key = attempts.takeKey();
      this.#begin(to, attemptMs);
      try {
        const answer = to.post(key, this.signal);
        const sentAt = performance.now();
        const message = await answer;
        if (!isAnswered) this.#onProgress({ kind: "answered", sentAt });
        isAnswered = true;
        await checkStatus(message, to.path, afterOutcomeMs);
        this.pauseIdleTimer();
        return { message, index };
      } catch (thrown) {
        await this.#recover(thrown, key, attempts, attemptMs);
      }
    }
  }

  /**
   * Waits until another attempt may follow: immediately with another key or at another destination.
   * @throws what has been thrown, if none may
   */
  async #recover(
    thrown: unknown,
    key: ProviderKey,
    attempts: Attempts,
    attemptMs: number,
  ): Promise<void> {
    if (this.#call.signal.aborted) throw thrown;
    const reason = this.signal.aborted ? this.signal.reason : thrown;
    const error = toProviderError(reason, "unreachable");
    this.pauseIdleTimer();
    this.#report(error.kind);
    this.#isUnread = !mayBeRead(error);
    if (attempts.goesOn(key, error)) return;
    const waitMs = this.#waitBefore(attempts.retried, error, attemptMs);
    const isOver = attempts.isOver || attempts.retried === this.#bounds.retries;
    if (isOver || waitMs === undefined) throw error;
    attempts.retried++;
    await sleep(waitMs, undefined, { signal: this.#call.signal });
  }

  /** The wait before a retry, in ms; undefined if it would not help, or not in time. */
  #waitBefore(retried: number, { facts }: ProviderError, attemptMs: number): number | undefined {
    const { totalMs, backoffMs } = this.#bounds;
    const { retryable, retryAfterMs = 0 } = facts;
    const waitMs = Math.max(retryAfterMs, backoffMs * 2 ** retried * (0.5 + Math.random()));
    const isInTime =
      retryAfterMs <= attemptMs && performance.now() + waitMs <= this.#startedAt + totalMs;
    return retryable && isInTime ? waitMs : undefined;
  }

  #begin(to: Destination, attemptMs: number): void {
    this.#attempt = new AbortController();
    this.#current = to;
    this.isSilent = false;
    this.#isUnread = false;
    to.onBegin();
    this.resetIdleTimer(attemptMs);
  }

  #report(outcome: AttemptOutcome): void {
    this.#current?.onEnd(outcome);
    this.#current = undefined;
  }

  /** Restarts the idle timer. */
  resetIdleTimer(ms: number): void {
    this.#isIdlePaused = false;
    if (this.#idle && this.#idleMs === ms) return void this.#idle.refresh(); // cheaper than a new timer
    clearTimeout(this.#idle);
    this.#idleMs = ms;
    this.#idle = setTimeout(this.#onSilence, ms);
  }

  /** Pauses the idle timer until the next reset, while the reader is busy. */
  pauseIdleTimer(): void {
    this.#isIdlePaused = true;
  }

  /**
   * Stops both timers and the listener on the client's signal. Closes the upstream connection
   * unless the reply is complete.
   * @param outcome of the latest attempt, unless that has failed before
   */
  end(isDone: boolean, outcome: AttemptOutcome): void {
    clearTimeout(this.#total);
    clearTimeout(this.#idle);
    this.#client.removeEventListener("abort", this.#onClientGone);
    if (!isDone) this.#attempt.abort();
    this.#report(outcome);
  }

  readonly #onSilence = () => {
    if (this.#isIdlePaused) return;
    this.isSilent = true;
    this.#attempt.abort(new ProviderError("timed out"));
  };
  readonly #onTotal = () => this.#end(new ProviderError("timed out"));
  readonly #onClientGone = () => this.#end(this.#client.reason);

  #end(reason: unknown): void {
    this.#call.abort(reason);
    this.#attempt.abort(reason);
  }
}

/**
 * Waits for the first byte of a successful response.
 * @throws ProviderError for any other status
 */
async function checkStatus(message: IncomingMessage, path: string, errorMs: number): Promise<void> {
  const status = message.statusCode ?? 0;
  if (isSuccess(status)) {
    if (message.errored) throw message.errored; // by bytes that arrived with the head
    if (message.readableLength === 0 && !message.complete) await once(message, "readable"); // also emitted at the end
    return;
  }
  const error = await errorIn(message, errorMs);
  const kind = classifyError(error, status);
  throw new ProviderError(kind, {
    retryable: kind !== "quota exhausted" && mayPass(message),
    retryAfterMs: retryAfterOf(message.headers) ?? retryDelayOf(error),
    isPromptTooLong: kind === "rejected the request" && isPromptTooLong(error),
    detail: status === 404 ? `HTTP 404 at ${path}` : `HTTP ${status}`,
  });
}

/** Some proxies send 201. A response without content (204) is not a reply. */
const isSuccess = (status: number) => status >= 200 && status < 300 && status !== 204;

/** Whether the same request may succeed later, by `x-should-retry` or else by the status. */
function mayPass({ statusCode = 0, headers }: IncomingMessage): boolean {
  const advice = headers["x-should-retry"];
  if (advice === "true" || advice === "false") return advice === "true";
  return statusCode === 408 || statusCode === 429 || statusCode >= 500;
}

/**
 * Reads the error in the body of an error response: a document, also as an event, or a text.
 * @returns undefined if none arrives in time
 */
async function errorIn(message: IncomingMessage, limitMs: number): Promise<unknown> {
  const content = addAbortSignal(AbortSignal.timeout(limitMs), decompressed(message));
  try {
    const body = String(await readAll(content, ERROR_BYTES));
    const parsed = parseJson(EVENT_DATA.exec(body)?.[1] ?? body);
    return Array.isArray(parsed) ? parsed[0] : parsed;
  } catch {
    return undefined; // the status alone decides
  }
}

/** The data of an event. */
const EVENT_DATA = /^data:(.*)$/m;

/** Parses a JSON document. Returns any other text as it is. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/**
 * Reads OpenAI's `retry-after-ms` or the `Retry-After` of RFC 9110 (seconds or a date).
 * @returns milliseconds from now
 */
function retryAfterOf(headers: IncomingMessage["headers"]): number | undefined {
  const after = headers["retry-after"] ?? "";
  const date = WEEKDAY.test(after) ? Date.parse(after) : Number.NaN;
  const waits = [decimalIn(headers["retry-after-ms"]), decimalIn(after) * 1000, date - Date.now()];
  return waits.find((wait) => wait >= 0 && Number.isFinite(wait));
}

/** Beginning of an HTTP date. `Date.parse` alone accepts almost any text. */
const WEEKDAY = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/;

const decimalIn = (value: string | string[] | undefined) =>
  /^\d+(\.\d+)?$/.test(`${value}`) ? Number(value) : Number.NaN;
