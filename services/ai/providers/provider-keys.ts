import type { Clock } from "../../platform/process/clock.ts";
import type { ProviderError, ProviderErrorKind } from "./errors.ts";

/** How long a key that is refused or out of quota is set aside, in ms. */
const SET_ASIDE_MS = 600_000;
/**
 * Maximum time for which a key with a rate limit is set aside, in ms: limits are per day at most.
 * Some servers send times of any length.
 */
const MAX_SET_ASIDE_MS = 24 * 3_600_000;

/** An API key of a provider. Only its number may be shown. */
export type ProviderKey = { number: number; text: string };

/** A key that is set aside, and why. */
export type SetAside = { number: number; until: Date; reason: ProviderErrorKind };

/**
 * The API keys of one provider, in the order of preference. A key that the provider does not serve
 * is set aside for a time. If all are set aside, the one that returns first is used.
 */
export class ProviderKeys {
  readonly #keys: readonly ProviderKey[];
  readonly #clock: Clock;
  readonly #onSetAside: (key: SetAside) => void;
  readonly #setAside = new Map<ProviderKey, { untilMs: number; reason: ProviderErrorKind }>();

  /**
   * @param texts at least one
   * @param onSetAside called for every key that is set aside
   */
  constructor(
    texts: readonly string[],
    clock: Clock,
    onSetAside: (key: SetAside) => void = () => {},
  ) {
    this.#keys = texts.map((text, index) => ({ number: index + 1, text }));
    this.#clock = clock;
    this.#onSetAside = onSetAside;
  }

  get count(): number {
    return this.#keys.length;
  }

  /** The keys that are set aside now. */
  get setAside(): SetAside[] {
    return this.#keys.flatMap((key) => {
      const { untilMs = 0, reason } = this.#setAside.get(key) ?? {};
      if (!reason || untilMs <= this.#nowMs()) return [];
      return [{ number: key.number, until: new Date(untilMs), reason }];
    });
  }

  /**
   * The key for an attempt: the first that is not set aside, or else the one that comes back first.
   */
  pick(): ProviderKey {
    const nowMs = this.#nowMs();
    const waitOf = (key: ProviderKey) => Math.max(0, this.#untilMs(key) - nowMs);
    return this.#keys.reduce((best, key) => (waitOf(key) < waitOf(best) ? key : best));
  }

  /**
   * Sets a key aside if the provider has refused it, or does not serve it for now. A key with a
   * rate limit is set aside for as long as the provider says, so not at all if it does not say.
   * @param tried the keys that the call has used
   * @returns another key with which the call can continue, if there is one
   */
  refuse(
    key: ProviderKey,
    { kind, facts }: ProviderError,
    tried: ReadonlySet<ProviderKey>,
  ): ProviderKey | undefined {
    const waitMs = kind === "rate limited" ? (facts.retryAfterMs ?? 0) : REFUSALS.get(kind);
    if (waitMs === undefined) return undefined;
    if (waitMs > 0) this.#setAsideFor(waitMs, key, kind);
    return this.#keys.find((other) => !tried.has(other) && this.#untilMs(other) <= this.#nowMs());
  }

  #setAsideFor(ms: number, key: ProviderKey, reason: ProviderErrorKind): void {
    const untilMs = this.#nowMs() + Math.min(ms, MAX_SET_ASIDE_MS);
    this.#setAside.set(key, { untilMs, reason });
    if (this.count > 1) this.#onSetAside({ number: key.number, until: new Date(untilMs), reason });
  }

  #untilMs(key: ProviderKey): number {
    return this.#setAside.get(key)?.untilMs ?? 0;
  }

  #nowMs(): number {
    return this.#clock.now().getTime();
  }
}

const REFUSALS: ReadonlyMap<ProviderErrorKind, number> = new Map([
  ["refused the key", SET_ASIDE_MS],
  ["quota exhausted", SET_ASIDE_MS],
]);
