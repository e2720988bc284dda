import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { addAbortSignal } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { classifyError, ProviderError, retryDelayOf, toProviderError } from "./errors.ts";
import { decompressed, readAll } from "./http-client.ts";
import type { ProviderBounds, ReplyEvent } from "./provider.ts";

/** Largest body of an error response that is parsed. Bytes. */
const ERROR_BYTES = 64 * 1024;

/**
 * One prompt and its reply, from the first attempt to the last byte: the abort signal of its HTTP
 * requests, a timeout for the whole and an idle timeout.
 */
export class UpstreamRequest {
  readonly #controller = new AbortController();
  /** Fires when the client has gone, when a timeout has passed, and on an early end. */
  readonly signal = this.#controller.signal;
  readonly #client: AbortSignal;
  readonly #bounds: ProviderBounds;
  readonly #path: string;
  readonly #startedAt = performance.now();
  readonly #total: NodeJS.Timeout;
  #idle: NodeJS.Timeout | undefined;
  #idleMs = 0;
  #isIdlePaused = false;
  /** The request was ended by its idle timer. */
  isSilent = false;

  /**
   * @param client fires when the reply is no longer wanted
   * @param path for the log, if the provider does not have it
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
   * Sends until a successful response begins to arrive. Retries what may pass until the first byte.
   * Waits as long as the provider asks for, if there is time for it, and otherwise with exponential
   * backoff and jitter.
   * @param post sends the request once and resolves when the status line has arrived
   * @returns the response, of which at least one byte has arrived
   * @throws ProviderError
   */
  async *send(
    post: () => Promise<IncomingMessage>,
    isStream: boolean,
  ): AsyncGenerator<ReplyEvent, IncomingMessage> {
    const { firstByteMs, totalMs, afterOutcomeMs, retries, backoffMs } = this.#bounds;
    // A model may write for minutes before a reply that is not streamed begins.
    const attemptMs = isStream ? firstByteMs : totalMs;
    let isAnswered = false;
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
        const { retryable, retryAfterMs = 0 } = error.facts;
        const waitMs = Math.max(retryAfterMs, backoffMs * 2 ** attempt * (0.5 + Math.random()));
        const isInTime =
          retryAfterMs <= attemptMs && performance.now() + waitMs <= this.#startedAt + totalMs;
        if (!retryable || attempt === retries || !isInTime) throw error;
        this.pauseIdleTimer();
        await sleep(waitMs, undefined, { signal: this.signal });
      }
    }
  }

  /** Starts the idle timer anew. */
  resetIdleTimer(ms: number): void {
    this.#isIdlePaused = false;
    if (this.#idle && this.#idleMs === ms) return void this.#idle.refresh(); // cheaper than a new timer
    clearTimeout(this.#idle);
    this.#idleMs = ms;
    this.#idle = setTimeout(this.#onSilence, ms);
  }

  /** Stops the idle timer until the next reset: nothing is expected of the provider. */
  pauseIdleTimer(): void {
    this.#isIdlePaused = true;
  }

  /**
   * Stops both timers and the listener on the client's signal. Closes what is still open upstream,
   * unless all is done.
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
 * Waits for the first byte of a success. Any other status is an error.
 */
async function checkStatus(message: IncomingMessage, path: string, errorMs: number): Promise<void> {
  const status = message.statusCode ?? 0;
  if (isSuccess(status)) {
    if (message.errored) throw message.errored; // by what came along with the head
    if (message.readableLength === 0 && !message.complete) await once(message, "readable"); // or at its end
    return;
  }
  const error = await errorIn(message, errorMs);
  const kind = classifyError(error, status);
  throw new ProviderError(kind, {
    retryable: kind !== "quota exhausted" && mayPass(message),
    retryAfterMs: retryAfterOf(message.headers) ?? retryDelayOf(error),
    detail: status === 404 ? `HTTP 404 at ${path}` : `HTTP ${status}`,
  });
}

/** Some proxies answer 201. Without content there is no reply. */
const isSuccess = (status: number) => status >= 200 && status < 300 && status !== 204;

/** Whether the same request may succeed later: `x-should-retry` says so, or else the status. */
function mayPass({ statusCode = 0, headers }: IncomingMessage): boolean {
  const advice = headers["x-should-retry"];
  if (advice === "true" || advice === "false") return advice === "true";
  return statusCode === 408 || statusCode === 429 || statusCode >= 500;
}

/**
 * The error object in the body of an error response. undefined if there is none in time, or an
 * error page of a proxy.
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
 * OpenAI's `retry-after-ms` or the `Retry-After` of RFC 9110 (seconds or a date). Milliseconds from
 * now.
 */
function retryAfterOf(headers: IncomingMessage["headers"]): number | undefined {
  const after = headers["retry-after"] ?? "";
  const date = WEEKDAY.test(after) ? Date.parse(after) : Number.NaN;
  const waits = [decimalIn(headers["retry-after-ms"]), decimalIn(after) * 1000, date - Date.now()];
  return waits.find((wait) => wait >= 0 && Number.isFinite(wait));
}

/** How an HTTP date begins. `Date.parse` alone finds a date in almost anything. */
const WEEKDAY = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/;

const decimalIn = (value: string | string[] | undefined) =>
  /^\d+(\.\d+)?$/.test(`${value}`) ? Number(value) : Number.NaN;
