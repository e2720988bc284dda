import type { SqlEntityManager } from "@mikro-orm/postgresql";
import { lockChain, sealDrop } from "./seal.ts";

/** Months that have their partition in advance. */
const MONTHS_AHEAD = 3;
/** How long adding or dropping may keep writers waiting, in ms: it goes on another time. */
const LOCK_TIMEOUT_MS = 2_000;

/**
 * Makes the partitions of this month and the next ones; rows that come before theirs stay in the default partition.
 * @throws Error while others don't let the table go, see `isBusy`
 */
export async function addPartitions(em: SqlEntityManager, now: Date): Promise<void> {
  for (let ahead = 0; ahead <= MONTHS_AHEAD; ahead++) {
    try {
      await em.transactional(async () => {
        await em.execute(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
        await em.execute("select audit_add_partition(?)", [monthOf(now, ahead)]);
      });
    } catch (error) {
      if (codeOf(error) !== CHECK_VIOLATION) throw error; // the default one has rows of that month
    }
  }
}

/** Whether adding or dropping came in others' way, and is to be tried again later. */
export function isLockTimeout(error: unknown): boolean {
  return codeOf(error) === LOCK_NOT_AVAILABLE;
}

const codeOf = (error: unknown) => (error as { code?: string }).code;
const CHECK_VIOLATION = "23514";
const LOCK_NOT_AVAILABLE = "55P03";

/**
 * Drops the partitions whose every event is of a month before a time's, once all of them are sealed, and says so in
 * the chain.
 * @throws Error while others don't let the table go, see `isBusy`
 * @returns the names of what was dropped
 */
export async function dropPartitions(em: SqlEntityManager, now: Date, olderThan: Date): Promise<string[]> {
  const month = monthOf(olderThan, 0);
  if ((await duePartitions(em, month)).length === 0) return [];
  return em.transactional(async () => {
    await em.execute(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
    const last = await lockChain(em);
    const [bound] = await em.execute<{ below: string; unsealed: boolean }[]>(
      `select b.below, exists (select from audit_unsealed where event_id < b.below) as unsealed
       from (select audit_id_at(?::date) as below) as b`,
      [month],
    );
    if (!last || !bound || bound.unsealed) return [];
    const names = await duePartitions(em, month);
    for (const name of names) await em.execute(`drop table ${name}`);
    if (names.includes(DEFAULT_PARTITION)) await addDefaultPartition(em);
    await sealDrop(em, now, last, bound.below);
    return names;
  });
}

/** Whether this database role may drop partitions; where it may not, `npm run migrate` does, as their owner. */
export async function ownsPartitions(em: SqlEntityManager): Promise<boolean> {
  const [log] = await em.execute<{ own: boolean }[]>(
    "select pg_has_role(relowner, 'usage') as own from pg_class where oid = 'audit_events'::regclass",
  );
  return log?.own ?? false;
}

const DEFAULT_PARTITION = "audit_events_default";

async function duePartitions(em: SqlEntityManager, month: string): Promise<string[]> {
  const rows = await em.execute<{ name: string }[]>(
    `select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
     where i.inhparent = 'audit_events'::regclass and c.relname ~ '^audit_events_\\d{4}_\\d\\d$'
       and c.relname < 'audit_events_' || to_char(?::date, 'YYYY_MM')
     union all
     select '${DEFAULT_PARTITION}' from (select max(id::text) as newest from ${DEFAULT_PARTITION}) as d
     where d.newest < audit_id_at(?::date)::text
     order by name`,
    [month, month],
  );
  return rows.map(({ name }) => name);
}

async function addDefaultPartition(em: SqlEntityManager): Promise<void> {
  await em.execute(`create table ${DEFAULT_PARTITION} partition of audit_events default`);
  await em.execute(
    `create trigger audit_untruncated before truncate on ${DEFAULT_PARTITION} execute function audit_refuse()`,
  );
}

/** The first day of a time's month, so many months later. */
function monthOf(time: Date, later: number): string {
  return new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth() + later)).toISOString().slice(0, 10);
}
