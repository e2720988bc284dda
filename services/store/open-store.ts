import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { type AvailabilityLog, createAvailabilityLog } from "../platform/telemetry/log.ts";
import type { OnStatement } from "../platform/telemetry/tracing.ts";
import { asDatabaseUrlError } from "./errors.ts";
import { openPostgres } from "./postgres.ts";
import { type DatabaseLocation, type Store, storeOf } from "./store.ts";

/**
 * Opens the database. Both engines use the same entities and migrations. The embedded engine is
 * only loaded if it is used.
 * @throws Error for operators if another process uses the folder or the server is unreachable
 */
export async function openStore(
  location: DatabaseLocation,
  log: Logger,
  onStatement?: OnStatement,
): Promise<Store> {
  const engine =
    location.kind === "postgres"
      ? await openPostgres(location.url, log, onStatement, location.statementMs).catch(
          asDatabaseUrlError,
        )
      : await (await import("./embedded.ts")).openEmbedded(location, log, onStatement);
  return storeOf(engine, onStatement);
}

/** How often an unavailable database is polled, in ms. */
const POLL_INTERVAL_MS = 1_000;

/**
 * Logs database outages.
 * @returns a function that reports an error meaning that the database is unavailable
 */
export function watchDatabase(
  { ping }: Pick<Store, "ping">,
  log: Logger,
): AvailabilityLog["onFailure"] {
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
