// The engines of the database, for suites of single modules.

import { createMigratedDatabase } from "./databases.ts";
import { openQuietStore } from "./store.ts";

/** The engines that a suite runs on: the server's where there is one, and with TEST_FULL both. */
export const ENGINES = process.env.TEST_SERVERS
  ? ["PostgreSQL", ...(process.env.TEST_FULL ? ["PGlite"] : [])]
  : ["PGlite"];

/** Opens a store with all migrations, on an empty database of its own. */
export async function openMigratedStore(engine = ENGINES[0]) {
  const store = await openQuietStore(
    engine === "PGlite" ? undefined : await createMigratedDatabase(),
  );
  await store.migrate(); // completes what an image lacks
  return store;
}
