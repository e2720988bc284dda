import {
  type Crossing,
  findLostCalls,
  firstReservedDay,
  settleUsage,
} from "../../store/budgets.ts";
import type { Store } from "../../store/store.ts";

/** Number of calls per statement. */
const BATCH_SIZE = 1_000;
/** Time after the maximum duration of a call at which it counts as lost, in ms. */
const MARGIN_MS = 60_000;
/**
 * Overlap of the periods of two runs, in ms: a row may be committed late, or by a process with a
 * slow clock.
 */
const OVERLAP_MS = 10 * 60_000;
/** Interval between searches of all calls, in ms. */
const FULL_INTERVAL_MS = 3_600_000;
const DAY_MS = 86_400_000;

/**
 * Creates the job that ends the calls of crashed processes. What was reserved for them counts as
 * used, since the provider may have charged for it.
 */
export function createLostCalls(
  store: Pick<Store, "fork" | "query">,
  longestMs: number,
  announce: (crossings: readonly Crossing[]) => void,
) {
  let searchedTo: Date | undefined;
  let fullyAt = Number.NEGATIVE_INFINITY;

  /** Where a run begins to search: rows have no index by their reservation. */
  async function startOf(now: Date): Promise<Date | undefined> {
    const sinceFull = now.getTime() - fullyAt;
    if (searchedTo && sinceFull >= 0 && sinceFull < FULL_INTERVAL_MS)
      return new Date(searchedTo.getTime() - OVERLAP_MS);
    const day = await firstReservedDay({ em: store.fork() });
    fullyAt = now.getTime();
    return day && new Date(day.getTime() - 2 * DAY_MS); // of any time zone
  }

  return async (now: Date, signal: AbortSignal): Promise<void> => {
    const before = new Date(now.getTime() - longestMs - MARGIN_MS);
    const from = await startOf(now);
    for (let found = BATCH_SIZE; from && found === BATCH_SIZE && !signal.aborted; ) {
      const calls = await findLostCalls({ em: store.fork() }, { from, before, limit: BATCH_SIZE });
      found = calls.length;
      if (found === 0) break;
      const crossings = await settleUsage(store, calls, now);
      if (crossings.length > 0) announce(crossings);
    }
    searchedTo = before;
  };
}
