import { setTimeout as wait } from "node:timers/promises";

/** Longer than the work takes, so that the duration reveals nothing, in ms. */
const PACE_MS = 100;

/** Does something in a time that does not depend on how much there was to do. */
export async function atSteadyPace(work: () => Promise<void>): Promise<void> {
  const [outcome] = await Promise.allSettled([work(), wait(PACE_MS)]);
  if (outcome.status === "rejected") throw outcome.reason;
}
