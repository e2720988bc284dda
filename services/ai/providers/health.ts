import type { Clock } from "../../platform/process/clock.ts";
import type { ProviderErrorKind } from "./errors.ts";

/** How an attempt has ended: a request to a provider, with its reply if there is one. */
export type AttemptOutcome = "completed" | "cancelled" | ProviderErrorKind;

/**
 * State of a breaker. `closed`: the provider works. `open`: it does not. `half-open`: it did not
 * recently, and the next call tests it.
 */
export type BreakerState = "closed" | "open" | "half-open";

/** Number of failures in a row that open a breaker. */
const FAILURES_IN_A_ROW = 5;
/**
 * Minimum number of attempts within the window. From there on, failures of half of them open the
 * breaker.
 */
const MIN_ATTEMPTS = 20;
/** Length of the window, in seconds. */
const WINDOW_SECONDS = 30;
/** Period for which attempts are counted for administrators, in seconds. */
const COUNTED_SECONDS = 60;
/**
 * How long a breaker is open, in ms. Doubles with every call that finds the provider still failing.
 */
const OPEN_MS = 10_000;
const MAX_OPEN_MS = 60_000;

/** The provider has answered, though not with a reply. */
const ANSWERS: ReadonlySet<AttemptOutcome> = new Set([
  "completed",
  "rejected the request",
  "blocked the content",
]);
/** Outcomes caused by the caller or by limits of this process. */
const UNRELATED: ReadonlySet<AttemptOutcome> = new Set(["cancelled", "reply too large"]);

/** Attempts of one second. */
type Second = { second: number; attempts: number; failures: number };

/**
 * How one provider has answered this process: counts, the last failure, and a circuit breaker.
 * Other processes have their own, since a provider may be reachable from one and not from another.
 */
export class UpstreamHealth {
  readonly #clock: Clock;
  readonly #onChange: (isOpen: boolean) => void;
  #seconds: Second[] = [];
  #failuresInARow = 0;
  #lastFailure: { kind: ProviderErrorKind; at: Date } | undefined;
  /** Undefined while the breaker is closed. */
  #openUntilMs: number | undefined;
  #openMs = OPEN_MS;
  /** Until then other calls wait for the outcome of one test call. */
  #probedUntilMs = 0;
  /** When the breaker was last closed. Attempts before do not open it again. */
  #closedAtSecond = 0;

  /** @param onChange called when the breaker opens and when it closes */
  constructor(clock: Clock, onChange: (isOpen: boolean) => void = () => {}) {
    this.#clock = clock;
    this.#onChange = onChange;
  }

  get breaker(): BreakerState {
    if (this.#openUntilMs === undefined) return "closed";
    return this.#nowMs() < this.#openUntilMs ? "open" : "half-open";
  }

  /** Whether calls of aliases should avoid the provider. */
  get isAvoided(): boolean {
    const { breaker } = this;
    return breaker === "open" || (breaker === "half-open" && this.#nowMs() < this.#probedUntilMs);
  }

  /** What administrators are shown. Attempts and failures are those of the last minute. */
  get report() {
    const { breaker } = this;
    const { attempts, failures } = this.#countSince(this.#second() - COUNTED_SECONDS);
    return { breaker, attempts, failures, lastFailure: this.#lastFailure };
  }

  /** Records the beginning of an attempt. */
  begin(): void {
    if (this.breaker === "half-open") this.#probedUntilMs = this.#nowMs() + this.#openMs;
  }

  /** Records the end of an attempt. */
  end(outcome: AttemptOutcome): void {
    if (UNRELATED.has(outcome)) return;
    const hasFailed = !ANSWERS.has(outcome);
    this.#count(hasFailed);
    if (!hasFailed) return void this.#close();
    this.#failuresInARow++;
    this.#lastFailure = { kind: outcome as ProviderErrorKind, at: this.#clock.now() };
    if (this.breaker === "half-open") this.#open(Math.min(2 * this.#openMs, MAX_OPEN_MS));
    else if (this.breaker === "closed" && this.#isFailing()) this.#open(OPEN_MS);
  }

  #nowMs(): number {
    return this.#clock.now().getTime();
  }

  #second(): number {
    return Math.floor(this.#nowMs() / 1000);
  }

  #count(hasFailed: boolean): void {
    const second = this.#second();
    let last = this.#seconds.at(-1);
    if (last?.second !== second) {
      const since = second - COUNTED_SECONDS;
      last = { second, attempts: 0, failures: 0 };
      this.#seconds = [...this.#seconds.filter((each) => each.second > since), last];
    }
    last.attempts++;
    if (hasFailed) last.failures++;
  }

  /** The attempts after a second. */
  #countSince(since: number): Omit<Second, "second"> {
    const sums = { attempts: 0, failures: 0 };
    for (const { second, attempts, failures } of this.#seconds) {
      if (second <= since) continue;
      sums.attempts += attempts;
      sums.failures += failures;
    }
    return sums;
  }

  #isFailing(): boolean {
    if (this.#failuresInARow >= FAILURES_IN_A_ROW) return true;
    const since = Math.max(this.#second() - WINDOW_SECONDS, this.#closedAtSecond);
    const { attempts, failures } = this.#countSince(since);
    return attempts >= MIN_ATTEMPTS && failures * 2 >= attempts;
  }

  #open(ms: number): void {
    const wasClosed = this.#openUntilMs === undefined;
    this.#openMs = ms;
    this.#openUntilMs = this.#nowMs() + ms;
    this.#probedUntilMs = 0;
    if (wasClosed) this.#onChange(true);
  }

  #close(): void {
    this.#failuresInARow = 0;
    if (this.#openUntilMs === undefined) return;
    this.#openUntilMs = undefined;
    this.#closedAtSecond = this.#second();
    this.#onChange(false);
  }
}
