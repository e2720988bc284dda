import { setTimeout as wait } from "node:timers/promises";
import { isLockTimeout } from "../store/errors.ts";
import { countEarlierEvents } from "../store/overview.ts";
import type { Store } from "../store/store.ts";
import { sumUpEarlierDay } from "../store/usage-sums.ts";

/** Pause between two statements, in ms, to give requests priority. */
const PAUSE_MS = 50;
/**
 * How far back audit events are counted, in ms: a day more than the overview compares, twice 30
 * days.
 */
const COUNTED_MS = 61 * 86_400_000;

/**
 * Adds AI calls and audit events that are older than the daily sums to them. After an upgrade this
 * takes a while. Until then, reports sum them up when they are read.
 */
export async function sumUpEarlier(
  store: Pick<Store, "fork">,
  now: Date,
  signal: AbortSignal,
): Promise<void> {
  const since = new Date(now.getTime() - COUNTED_MS);
  const steps = [
    () => sumUpEarlierDay({ em: store.fork() }),
    () => countEarlierEvents({ em: store.fork() }, since),
  ];
  for (const step of steps) {
    while (!signal.aborted && (await step().catch(ignoreLockTimeout))) await wait(PAUSE_MS);
  }
}

/** The next run tries again. */
export function ignoreLockTimeout(error: unknown): false {
  if (!isLockTimeout(error)) throw error;
  return false;
}
