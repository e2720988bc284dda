import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { addAbortSignal } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import {
  classifyError,
  isPromptTooLong,
  ProviderError,
  retryDelayOf,
  toProviderError,
} from "./errors.ts";
import { decompressed, readAll } from "./http-client.ts";
import type { ProviderBounds, ReplyEvent } from "./provider.ts";

/** Maximum size of the body of an error response, in bytes. Larger ones are not parsed. */
const ERROR_BYTES = 64 * 1024;

/**
 * A prompt and its reply, from the first attempt to the last byte: the abort signal of the HTTP
 * requests, a total time-out and an idle time-out.
 */
export class UpstreamRequest {
  readonly #controller = new AbortController();
  /** Fires when the client disconnects, at a time-out, and on an early end. */
  readonly signal = this.#controller.signal;
  readonly #client: AbortSignal;
  readonly #bounds: ProviderBounds;
  readonly #path: string;
  readonly #startedAt = performance.now();
  readonly #total: NodeJS.Timeout;
  #idle: NodeJS.Timeout | undefined;
  #idleMs = 0;
  #isIdlePaused = false;
  /** The idle timer has ended the request. */
  isSilent = false;

  /**
   * @param client fires when the reply is no longer wanted
   * @param path for the log, if the provider answers that it does not exist
   */
  constructor(client: AbortSignal, bounds: ProviderBounds, path: string) {
    this.#client = client;
    this.#bounds = bounds;
    this.#path = path.replace(/\?.*/, "");
    this.#total = setTimeout(this.#onTimeout, bounds.totalMs);
    if (client.aborted) this.#onClientGone();
    else client.addEventListener("abort", this.#onClientGone);
  }

  /**
   * Sends the request until a successful response begins to arrive. Retries temporary failures
   * before the first byte. Waits with exponential backoff and jitter, or longer if the provider
   * asks for it, as far as the time limits allow.
   * @param post sends the request once and resolves when the status line has arrived
   * @param mostTimeOuts how many attempts that have timed out may be followed by another
   * @returns the response, of which at least one byte has arrived
   * @throws ProviderError
   */
  async *send(
    post: () => Promise<IncomingMessage>,
    isStream: boolean,
    mostTimeOuts = Number.POSITIVE_INFINITY,
  ): AsyncGenerator<ReplyEvent, IncomingMessage> {
    const { firstByteMs, totalMs, afterOutcomeMs, retries } = this.#bounds;
    // A reply that is not streamed begins when it is complete, which may take minutes.
    const attemptMs = isStream ? firstByteMs : totalMs;
    let isAnswered = false;
    let timeOuts = 0;
    for (let attempt = 0; ; attempt++) {
      this.resetIdleTimer(attemptMs);
      try {
        const answer = post();
        const sentAt = performance.now();
        const message = await answer;
        if (!isAnswered) yield { kind: "answered", sentAt };
        isAnswered = true;
        await checkStatus(message, this.#path, afterOutcomeMs);
        this.pauseIdleTimer();
        return message;
      } catch (thrown) {
        if (this.signal.aborted) throw thrown;
        const error = toProviderError(thrown, "unreachable");
        const waitMs = this.#waitAfter(error, attempt, attemptMs);
        const mayBeRead = error.kind === "timed out";
        timeOuts += Number(mayBeRead);
        const isOver = attempt === retries || (mayBeRead && timeOuts > mostTimeOuts);
        if (isOver || waitMs === undefined) throw error;
        this.pauseIdleTimer();
        await sleep(waitMs, undefined, { signal: this.signal });
        yield { kind: "retrying", mayBeRead };
      }
    }
  }

  /**
   * The wait before another attempt, in ms.
   * @param attempt number of attempts before the one that has failed
   * @returns undefined if another one can't help, or would be too late
   */
  #waitAfter({ facts }: ProviderError, attempt: number, attemptMs: number): number | undefined {
    const { retryable, retryAfterMs = 0 } = facts;
    const { totalMs, backoffMs } = this.#bounds;
    const waitMs = Math.max(retryAfterMs, backoffMs * 2 ** attempt * (0.5 + Math.random()));
    const isInTime =
      retryAfterMs <= attemptMs && performance.now() + waitMs <= this.#startedAt + totalMs;
    return retryable && isInTime ? waitMs : undefined;
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
   */
  end(isDone: boolean): void {
    clearTimeout(this.#total);
    clearTimeout(this.#idle);
    this.#client.removeEventListener("abort", this.#onClientGone);
    if (!isDone) this.#controller.abort();
  }

  readonly #onSilence = () => {
    if (this.#isIdlePaused) return;
    this.isSilent = true;
    this.#onTimeout();
  };
  readonly #onTimeout = () => this.#controller.abort(new ProviderError("timed out"));
  readonly #onClientGone = () => this.#controller.abort(this.#client.reason);
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
 * Reads the error object in the body of an error response.
 * @returns undefined if none arrives in time, or if the body is not JSON, as an error page is
 */
async function errorIn(message: IncomingMessage, limitMs: number): Promise<unknown> {
  const content = addAbortSignal(AbortSignal.timeout(limitMs), decompressed(message));
  try {
    const parsed: unknown = JSON.parse(String(await readAll(content, ERROR_BYTES)));
    const body = (Array.isArray(parsed) ? parsed[0] : parsed) as { error?: unknown } | null;
    return body?.error ?? body;
  } catch {
    return undefined; // the status alone decides
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
