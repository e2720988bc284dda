import { setTimeout as wait } from "node:timers/promises";

/** Longer than the work takes, so that the duration reveals nothing, in ms. */
const MIN_DURATION_MS = 100;

/** Runs work that takes at least a fixed time, so that timing does not reveal what was done. */
export async function withMinimumDuration(work: () => Promise<void>): Promise<void> {
  const [outcome] = await Promise.allSettled([work(), wait(MIN_DURATION_MS)]);
  if (outcome.status === "rejected") throw outcome.reason;
}
