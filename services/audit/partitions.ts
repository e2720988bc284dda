import type { SqlEntityManager } from "@mikro-orm/postgresql";
import { lockChain, sealDrop } from "./seal.ts";

/** Months that have their partition in advance. */
const MONTHS_AHEAD = 3;
/** How long dropping may keep writers waiting, in ms: it goes on another time. */
const LOCK_TIMEOUT_MS = 2_000;

/** Makes the partitions of this month and the next ones; rows that come before theirs go into the default partition. */
export async function addPartitions(em: SqlEntityManager, now: Date): Promise<void> {
  for (let ahead = 0; ahead <= MONTHS_AHEAD; ahead++) {
    const month = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + ahead)).toISOString().slice(0, 10);
    await em.execute("select audit_add_partition(?)", [month]);
  }
}

/**
 * Drops the partitions whose every event is older than a time, once all of them are sealed, and says so in the chain.
 * @returns the names of what was dropped
 */
export async function dropPartitions(em: SqlEntityManager, now: Date, olderThan: Date): Promise<string[]> {
  const month = new Date(Date.UTC(olderThan.getUTCFullYear(), olderThan.getUTCMonth())).toISOString().slice(0, 10);
  const due = `select c.relname as name, audit_id_at(?::date)::text as below from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'audit_events'::regclass and c.relname < 'audit_events_' || to_char(?::date, 'YYYY_MM')
      and c.relname ~ '^audit_events_\\d{4}_\\d\\d$' order by c.relname`;
  if ((await em.execute<unknown[]>(due, [month, month])).length === 0) return [];
  return em.transactional(async () => {
    await em.execute(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
    const last = await lockChain(em);
    const parts = await em.execute<{ name: string; below: string }[]>(due, [month, month]);
    const below = parts[0]?.below;
    if (!last || !below) return [];
    const unsealed = await em.execute<unknown[]>("select 1 from audit_unsealed where event_id < ? limit 1", [below]);
    if (unsealed.length > 0) return [];
    for (const { name } of parts) await em.execute(`drop table ${name}`);
    await sealDrop(em, now, last, below);
    return parts.map(({ name }) => name);
  });
}
