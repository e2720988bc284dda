import { setTimeout as wait } from "node:timers/promises";
import type { Store } from "./store.ts";

/** Pages of the table that one statement scans, 8 KiB each. */
const PAGES_PER_STATEMENT = 64;
/** Pause between two statements, in ms: requests come first. */
const PAUSE_MS = 10;

/** Rows that nobody needs any more. */
export type ExpiredRows = { table: string; key: string; condition: string; values: unknown[] };

/**
 * Deletes litter in small batches, walking through the table page by page: no index has to follow the times that each
 * refresh moves, and rows that somebody holds are left to the next time. @param signal stops it between two batches
 */
export async function purgeExpired(
  store: Store,
  { table, key, condition, values }: ExpiredRows,
  signal: AbortSignal,
): Promise<void> {
  const [size] = await store
    .fork()
    .execute<{ pages: number }[]>("select (pg_relation_size(?) / 8192)::int as pages", [table]);
  for (let page = 0; page < (size?.pages ?? 0) && !signal.aborted; page += PAGES_PER_STATEMENT) {
    await store.fork().execute(
      `delete from ${table} where (${key}) in (
         select ${key} from ${table} where ctid >= ?::tid and ctid < ?::tid and (${condition}) for update skip locked)`,
      [`(${page},0)`, `(${page + PAGES_PER_STATEMENT},0)`, ...values],
    );
    await wait(PAUSE_MS);
  }
}
