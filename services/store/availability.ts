import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { type AvailabilityLog, createAvailabilityLog } from "../platform/log.ts";
import type { Store } from "./store.ts";

/** How often an unavailable database is checked, in ms. */
const POLL_INTERVAL_MS = 1_000;

/** Logs outages of the database. @returns what reports an error that means that the database is unavailable */
export function watchDatabase({ ping }: Pick<Store, "ping">, log: Logger): AvailabilityLog["onFailure"] {
  const availability = createAvailabilityLog(log, "database");
  const poll = async () => {
    while (!availability.isAvailable()) {
      await wait(POLL_INTERVAL_MS, undefined, { ref: false });
      await ping().then(availability.onSuccess, availability.onFailure);
    }
  };
  return (error) => {
    const wasAvailable = availability.isAvailable();
    availability.onFailure(error);
    if (wasAvailable) void poll();
  };
}
