import { setTimeout as sleep } from "node:timers/promises";
import { UpstreamError } from "./errors.ts";
import type { CallTimings } from "./provider.ts";

/**
 * One prompt and its reply, from the first attempt to the last byte: the signal that its upstream requests obey, and
 * the two alarms that may fire it, one for the whole and one for the silence of the moment.
 */
export class UpstreamRequest {
  readonly #controller = new AbortController();
  readonly #client: AbortSignal;
  readonly #endsAt: number;
  readonly #total: NodeJS.Timeout;
  #silence: NodeJS.Timeout | undefined;
  #silenceMs = 0;
  #isResting = false;
  #desertedFor: { reason: unknown } | undefined;
  readonly timings: CallTimings | undefined;

  constructor(client: AbortSignal, totalMs: number, timings?: CallTimings) {
    this.timings = timings;
    this.#client = client;
    this.#endsAt = performance.now() + totalMs;
    this.#total = setTimeout(this.#ring, totalMs);
    if (client.aborted) this.#leave();
    else client.addEventListener("abort", this.#leave);
  }

  /** Fires when the client has gone or time is up. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The client has gone, or whoever takes the reply has left. */
  get isAborted(): boolean {
    return this.#desertedFor !== undefined;
  }

  /** Why it was ended early; undefined while it wasn't. */
  get cause(): unknown {
    if (this.#desertedFor) return this.#desertedFor.reason;
    return this.signal.aborted ? this.signal.reason : undefined;
  }

  get remainingMs(): number {
    return this.#endsAt - performance.now();
  }

  /** From now on the provider has that long; replaces what was said before. */
  resetIdleTimer(ms: number): void {
    this.#isResting = false;
    if (this.#silence && this.#silenceMs === ms) return void this.#silence.refresh(); // cheaper than a new one
    clearTimeout(this.#silence);
    this.#silenceMs = ms;
    this.#silence = setTimeout(() => this.#isResting || this.#ring(), ms);
  }

  /** Nothing is expected of the provider: it is the client's turn, or nobody's. */
  pauseIdleTimer(): void {
    this.#isResting = true;
  }

  /** Waits, unless the client leaves. */
  async sleep(ms: number): Promise<void> {
    this.pauseIdleTimer();
    await sleep(ms, undefined, { signal: this.signal });
  }

  /** Stops both alarms and lets go of the client's signal. */
  finish(): void {
    clearTimeout(this.#total);
    clearTimeout(this.#silence);
    this.#client.removeEventListener("abort", this.#leave);
  }

  /** Ends it early for want of a reader. */
  abort(reason: unknown): void {
    this.#desertedFor ??= { reason };
    this.#controller.abort(reason);
  }

  /** Settles, and closes whatever is still open upstream. */
  close(): void {
    this.finish();
    this.#controller.abort();
  }

  readonly #ring = () => this.#controller.abort(new UpstreamError("timed out"));
  readonly #leave = () => this.abort(this.#client.reason);
}
