import { setTimeout as sleep } from "node:timers/promises";
import { UpstreamError } from "./errors.ts";

/**
 * One prompt and its reply, from the first attempt to the last byte: the abort signal of its HTTP requests, a timeout for
 * the whole and an idle timeout.
 */
export class UpstreamRequest {
  readonly #controller = new AbortController();
  readonly #client: AbortSignal;
  readonly #endsAt: number;
  readonly #total: NodeJS.Timeout;
  #idle: NodeJS.Timeout | undefined;
  #idleMs = 0;
  #isIdlePaused = false;

  /** @param client fires when the reply is no longer wanted */
  constructor(client: AbortSignal, totalMs: number) {
    this.#client = client;
    this.#endsAt = performance.now() + totalMs;
    this.#total = setTimeout(this.#onTimeout, totalMs);
    if (client.aborted) this.#onClientGone();
    else client.addEventListener("abort", this.#onClientGone);
  }

  /** Fires when the client has gone, when a timeout has passed, and on `close`. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get remainingMs(): number {
    return this.#endsAt - performance.now();
  }

  /** Starts the idle timer anew. */
  resetIdleTimer(ms: number): void {
    this.#isIdlePaused = false;
    if (this.#idle && this.#idleMs === ms) return void this.#idle.refresh(); // cheaper than a new timer
    clearTimeout(this.#idle);
    this.#idleMs = ms;
    this.#idle = setTimeout(() => this.#isIdlePaused || this.#onTimeout(), ms);
  }

  /** Stops the idle timer until the next reset: nothing is expected of the provider. */
  pauseIdleTimer(): void {
    this.#isIdlePaused = true;
  }

  /** Waits, unless the request is aborted first. */
  async sleep(ms: number): Promise<void> {
    this.pauseIdleTimer();
    await sleep(ms, undefined, { signal: this.signal });
  }

  /** Stops both timers and the listener on the client's signal. What is still open upstream stays open. */
  finish(): void {
    clearTimeout(this.#total);
    clearTimeout(this.#idle);
    this.#client.removeEventListener("abort", this.#onClientGone);
  }

  /** Finishes, and closes what is still open upstream. */
  close(): void {
    this.finish();
    this.#controller.abort();
  }

  readonly #onTimeout = () => this.#controller.abort(new UpstreamError("timed out"));
  readonly #onClientGone = () => this.#controller.abort(this.#client.reason);
}
