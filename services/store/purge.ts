import { setTimeout as wait } from "node:timers/promises";
import type { Config } from "../platform/config/config.ts";
import { closeActiveDays } from "./overview.ts";
import { oneRow } from "./statement.ts";
import type { Store } from "./store.ts";
import { firstDetailedDay, rollUpUsage } from "./usage.ts";
import { forgetClosedDays } from "./usage-parts.ts";

/** Number of table pages (8 KiB each) that one statement scans. */
const PAGES_PER_STATEMENT = 64;
/** Number of calls that one statement aggregates, separately for calls with and without a user. */
const CALLS_PER_STATEMENT = 5_000;
/** Pause between two statements, in ms, to give requests priority. */
const PAUSE_MS = 10;

/**
 * Time after the end of a day until its active users are known, in ms. Sealing takes about a
 * second.
 */
const ACTIVE_DAY_MS = 3_600_000;

/** How long ended webhook deliveries are kept, in ms. */
const DELIVERY_RETENTION_MS = 30 * 86_400_000;

/** Conditions for rows that are no longer needed, by table. */
const EXPIRED = {
  sessions: `least(revoked_at, expires_at) <= :before
    and not exists (select from sessions i where i.actor_session_id = sessions.id)`, // impersonations first: otherwise the cascade would wait for their locks
  one_time_tokens: "expires_at <= :before",
  completed_ceremonies: "expires_at <= :before",
  attempts: `reserved_at <= :before and (consecutive = 0 or not case kind
    when 'password' then exists (select from users u where u.canonical_email = subject)
    when 'device' then exists (select from devices d
      where d.user_id = split_part(subject, ':', 1)::uuid and d.id = split_part(subject, ':', 2)::uuid)
    else exists (select from users u where u.id = subject::uuid) end)`, // consecutive failures of an account never expire
  api_keys: "least(revoked_at, expires_at) <= :before", // by then, no call that is kept in detail refers to it
  budgets: `scope = 'key' and created_at <= :before
    and not exists (select from api_keys k where k.id::text = budgets.subject)`, // of deleted keys
  budget_counters: "period_start + 62 <= :before::date and reserved = 0", // never of a current period, however short the retention
  webhook_deliveries: "next_attempt_at is null and coalesce(delivered_at, queued_at) <= :before",
  emails: "status in ('sent', 'failed') and created_at <= :before",
};

/**
 * Deletes data that is no longer needed: ended sessions and API keys, expired one-time tokens,
 * attempt counters and e-mails. Aggregates old AI calls and active users by day.
 * @param signal stops the run between two statements
 */
export async function purgeExpired(
  store: Pick<Store, "fork">,
  now: Date,
  config: Pick<
    Config,
    | "lockoutDurationMs"
    | "lockoutResetMs"
    | "emailRetentionMs"
    | "sessionRetentionMs"
    | "usageRetentionMs"
  >,
  signal: AbortSignal,
): Promise<void> {
  const ago = (ms: number) => (ms === 0 ? undefined : new Date(now.getTime() - ms));
  const times = {
    sessions: ago(config.sessionRetentionMs),
    one_time_tokens: now,
    completed_ceremonies: now,
    attempts: ago(config.lockoutResetMs + config.lockoutDurationMs),
    api_keys: ago(config.usageRetentionMs),
    budgets: ago(config.usageRetentionMs),
    budget_counters: ago(config.usageRetentionMs),
    webhook_deliveries: ago(DELIVERY_RETENTION_MS),
    emails: ago(config.emailRetentionMs),
  };
  for (const [table, condition] of Object.entries(EXPIRED) as [keyof typeof EXPIRED, string][]) {
    const before = times[table];
    if (!before) continue;
    const sql = "select (pg_relation_size(:table) / 8192)::int as pages";
    const { pages } = await oneRow<{ pages: number }>({ em: store.fork() }, sql, { table });
    // scan by table pages, since times that change with every refresh have no index; locked rows
    // are left for the next run
    for (let page = 0; page < pages && !signal.aborted; page += PAGES_PER_STATEMENT) {
      await store.fork().execute(
        `delete from ${table} where ctid = any(array(
           select ctid from ${table} where ctid >= :from::tid and ctid < :to::tid and (${condition}) for update skip locked))`,
        { from: `(${page},0)`, to: `(${page + PAGES_PER_STATEMENT},0)`, before },
      );
      await wait(PAUSE_MS);
    }
  }
  await closeActiveDays({ em: store.fork() }, new Date(now.getTime() - ACTIVE_DAY_MS));
  const firstDay = firstDetailedDay(now, config.usageRetentionMs);
  if (config.usageRetentionMs > 0) await forgetClosedDays({ em: store.fork() }, firstDay);
  while (
    !signal.aborted &&
    (await rollUpUsage({ em: store.fork() }, firstDay, CALLS_PER_STATEMENT)) > 0
  ) {
    await wait(PAUSE_MS);
  }
}
