import type { JsonObject } from "@bufbuild/protobuf";
import { type Page, type PageRequest, readPage, whereIf } from "./page.ts";
import { type Db, lowestId, toColumns } from "./store.ts";

/** A recorded fact about an account. */
export type AuditEventRow = {
  id: string;
  event: string;
  outcome: "success" | "failure";
  /** The user whom the event concerns. */
  userId: string | null;
  /** The user who caused it. */
  actorId: string | null;
  ip: string;
  userAgent: string;
  requestId: string;
  details: JsonObject;
  createdAt: Date;
};

/** Inserts an event. It waits in `audit_unsealed` to be sealed, so that writers never wait for each other. */
export async function insertAuditEvent({ em }: Db, row: AuditEventRow): Promise<void> {
  await em.execute(
    `with recorded as (
       insert into audit_events select * from jsonb_populate_record(null::audit_events, ?::jsonb) returning id)
     insert into audit_unsealed (event_id) select id from recorded`,
    [JSON.stringify(toColumns(row))],
  );
}

/** Which audit events: `from` inclusive, `to` exclusive. */
export type AuditFilter = {
  userId?: string | undefined;
  actorId?: string | undefined;
  event?: string | undefined;
  from?: Date | undefined;
  to?: Date | undefined;
};

const COLUMNS = `t.id, t.event, t.outcome, t.user_id as "userId", t.actor_id as "actorId", t.ip, t.user_agent as "userAgent",
  t.request_id as "requestId", t.details, t.created_at as "createdAt"`;

/** Lists events, newest first. Ids begin with the time, so times become bounds of ids. */
export function listAuditEvents(
  { em }: Db,
  { userId, actorId, event, from, to }: AuditFilter,
  request: PageRequest,
): Promise<Page<AuditEventRow>> {
  const where = [
    whereIf(userId, "t.user_id = ?"),
    whereIf(actorId, "t.actor_id = ?"),
    whereIf(event, "t.event = ?"),
    whereIf(from && lowestId(from), "t.id >= ?"),
    whereIf(to && lowestId(to), "t.id < ?"),
  ];
  return readPage<AuditEventRow>(em, { columns: COLUMNS, from: "audit_events", where }, request);
}

/** How long a change of partitions may make writers wait, in ms. */
const LOCK_TIMEOUT_MS = 2_000;
const DEFAULT_PARTITION = "audit_events_default";
const CHECK_VIOLATION = "23514";
const codeOf = (error: unknown) => (error as { code?: string }).code;

/** Limits the time that this transaction waits for locks. */
export async function limitLockTime({ em }: Db): Promise<void> {
  await em.execute(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
}

/**
 * Adds the partition of a month, unless it exists or the default partition has events of that month.
 * @throws Error if the table stays locked, see `isLockTimeout`
 */
export async function addPartition(db: Db, firstDay: string): Promise<void> {
  try {
    await db.em.transactional(async () => {
      await limitLockTime(db);
      await db.em.execute("select audit_add_partition(?)", [firstDay]);
    });
  } catch (error) {
    if (codeOf(error) !== CHECK_VIOLATION) throw error;
  }
}

/** Whether this database role may drop partitions. Where it may not, `npm run migrate` does, as their owner. */
export async function ownsPartitions({ em }: Db): Promise<boolean> {
  const [log] = await em.execute<{ own: boolean }[]>(
    "select pg_has_role(relowner, 'usage') as own from pg_class where oid = 'audit_events'::regclass",
  );
  return log?.own ?? false;
}

/** A month, or that of the oldest event in the default partition if this one has later events too. */
export async function droppableMonth({ em }: Db, firstDay: string): Promise<string> {
  const [row] = await em.execute<{ month: string }[]>(
    `select to_char(least(?::date, (
       select date_trunc('month', to_timestamp(
         ('x' || replace(left(min(id::text), 13), '-', ''))::bit(48)::bigint / 1000.0) at time zone 'UTC')
       from ${DEFAULT_PARTITION} having max(id::text) >= audit_id_at(?::date)::text)), 'YYYY-MM-DD') as month`,
    [firstDay, firstDay],
  );
  return row?.month ?? firstDay;
}

/** Names of the partitions whose every event is older than a month. */
export async function partitionsBefore({ em }: Db, firstDay: string): Promise<string[]> {
  const rows = await em.execute<{ name: string }[]>(
    `select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
     where i.inhparent = 'audit_events'::regclass and c.relname ~ '^audit_events_\\d{4}_\\d\\d$'
       and c.relname < 'audit_events_' || to_char(?::date, 'YYYY_MM')
     union all
     select '${DEFAULT_PARTITION}' from (select max(id::text) as newest from ${DEFAULT_PARTITION}) as d
     where d.newest < audit_id_at(?::date)::text
     order by name`,
    [firstDay, firstDay],
  );
  return rows.map(({ name }) => name);
}

/** The least id of a month. @returns undefined while events below it wait to be sealed */
export async function sealedBound({ em }: Db, firstDay: string): Promise<string | undefined> {
  const [bound] = await em.execute<{ id: string }[]>(
    `select b.id from (select audit_id_at(?::date) as id) as b
     where not exists (select from audit_unsealed where event_id < b.id)`,
    [firstDay],
  );
  return bound?.id;
}

/** Drops partitions with their events. The default partition is replaced by an empty one. */
export async function dropTables({ em }: Db, names: string[]): Promise<void> {
  for (const name of names) await em.execute(`drop table ${name}`);
  if (!names.includes(DEFAULT_PARTITION)) return;
  await em.execute(`create table ${DEFAULT_PARTITION} partition of audit_events default`);
  await em.execute(
    `create trigger audit_untruncated before truncate on ${DEFAULT_PARTITION} execute function audit_refuse()`,
  );
}
