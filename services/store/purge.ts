import { setTimeout as wait } from "node:timers/promises";
import type { Config } from "../platform/config.ts";
import type { Store } from "./store.ts";

/** Pages of the table that one statement scans, 8 KiB each. */
const PAGES_PER_STATEMENT = 64;
/** Pause between two statements, in ms, so that requests come first. */
const PAUSE_MS = 10;

/** Rows of a table that have expired. */
type ExpiredRows = { table: string; key: string; condition: string; values: unknown[] };

/**
 * Deletes ended sessions, expired one-time tokens, attempt counters that no longer count, and old e-mails.
 * @param signal stops between two statements
 */
export async function purgeExpired(
  store: Pick<Store, "fork">,
  now: Date,
  { lockout: { resetMs, durationMs }, emailRetentionMs }: Pick<Config, "lockout" | "emailRetentionMs">,
  signal: AbortSignal,
): Promise<void> {
  const expired: ExpiredRows[] = [
    {
      table: "sessions",
      key: "id",
      condition: `(revoked_at is not null or expires_at <= ?)
        and not exists (select from sessions i where i.actor_session_id = sessions.id)`, // impersonations first: the cascade would wait for their locks
      values: [now],
    },
    { table: "one_time_tokens", key: "id", condition: "expires_at <= ?", values: [now] },
    {
      table: "attempts",
      key: "kind, subject",
      condition: `reserved_at <= ? and (consecutive = 0
        or not exists (select from users u where attempts.subject in (u.canonical_email, u.id::text)))`, // failures in a row of an account never expire
      values: [new Date(now.getTime() - resetMs - durationMs)],
    },
    ...(emailRetentionMs === 0
      ? []
      : [
          {
            table: "emails",
            key: "id",
            condition: "status in ('sent', 'failed') and created_at <= ?",
            values: [new Date(now.getTime() - emailRetentionMs)],
          },
        ]),
  ];
  for (const rows of expired) await deleteByPages(store, rows, signal);
}

/**
 * Deletes rows in small batches, page by page: no index has to be kept on times that each refresh changes. Locked rows
 * are skipped until the next run.
 */
async function deleteByPages(
  store: Pick<Store, "fork">,
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
