import type { Logger } from "pino";
import { asDatabaseUrlError } from "./errors.ts";
import { openPostgres } from "./postgres.ts";
import type { DatabaseLocation, Store } from "./store.ts";

/**
 * Opens the database. Both engines use the same entities and migrations; the embedded engine is loaded only if it is used.
 * @throws Error for operators, if another process uses the folder, or the server is not reachable
 */
export async function openStore(location: DatabaseLocation, log: Logger): Promise<Store> {
  if (location.kind !== "postgres") return (await import("./embedded.ts")).openEmbedded(location, log);
  return openPostgres(location.url, log, location.statementMs).catch(asDatabaseUrlError);
}
