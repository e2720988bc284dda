import type { JsonObject } from "@bufbuild/protobuf";
import { CheckConstraintViolationException } from "@mikro-orm/core";
import type { ListAuditLogsRequest } from "../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { lowestId } from "./ids.ts";
import { type Page, type PageRequest, readPage, rowsWhere } from "./page.ts";
import { type Person, personColumn } from "./person.ts";
import { type Db, returnsRow, toColumns } from "./statement.ts";

/** A recorded event that concerns an account. */
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

/**
 * Inserts an event. It is put into `audit_unsealed` until it is sealed, so that writers never wait
 * for each other.
 */
export async function insertAuditEvent({ em }: Db, row: AuditEventRow): Promise<void> {
  await em.execute(
    `with recorded as (
       insert into audit_events select * from jsonb_populate_record(null::audit_events, :event::jsonb) returning id)
     insert into audit_unsealed (event_id) select id from recorded`,
    { event: toColumns(row) },
  );
}

/** Filter for audit events. `from` is inclusive, `to` exclusive. */
export type AuditFilter = Partial<Pick<ListAuditLogsRequest, "userId" | "actorId" | "event">> & {
  from?: Date | undefined;
  to?: Date | undefined;
};

const COLUMNS = `t.id, t.event, t.outcome, t.user_id as "userId", t.actor_id as "actorId", t.ip, t.user_agent as "userAgent",
  t.request_id as "requestId", t.details, t.created_at as "createdAt",
  ${personColumn("u", "user")}, ${personColumn("a", "actor")}`;
/** Joins the current names, only for the rows of a page. */
const JOIN_PEOPLE = "left join users u on u.id = t.user_id left join users a on a.id = t.actor_id";

/** An event as administrators see it. */
type ListedEvent = AuditEventRow & { user: Person | null; actor: Person | null };

/** Lists events, newest first. Ids begin with the time, so times are converted to bounds of ids. */
export function listAuditEvents(
  db: Db,
  filter: AuditFilter,
  request: PageRequest,
): Promise<Page<ListedEvent>> {
  const conditions = {
    userId: "t.user_id = :userId",
    actorId: "t.actor_id = :actorId",
    event: "t.event = :event",
    from: "t.id >= :from",
    to: "t.id < :to",
  };
  const values = {
    ...filter,
    from: filter.from && lowestId(filter.from),
    to: filter.to && lowestId(filter.to),
  };
  return readPage(
    db,
    {
      columns: COLUMNS,
      from: "audit_events",
      joins: JOIN_PEOPLE,
      ...rowsWhere(conditions, values),
    },
    request,
  );
}

/** Maximum time for which a change of partitions may block writers, in ms. */
const LOCK_TIMEOUT_MS = 2_000;
const DEFAULT_PARTITION = "audit_events_default";

/** Limits how long this transaction waits for locks. */
export async function limitLockTime({ em }: Db): Promise<void> {
  await em.execute(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
}

/**
 * Adds the partition of a month, unless the default partition has events of that month.
 * @throws Error if it times out: see `isLockTimeout`
 */
export async function addPartition(db: Db, firstDay: string): Promise<void> {
  try {
    await db.em.transactional(async () => {
      await limitLockTime(db);
      await db.em.execute("select audit_add_partition(:firstDay)", { firstDay });
    });
  } catch (error) {
    if (!(error instanceof CheckConstraintViolationException)) throw error;
  }
}

/**
 * Whether this database role may drop partitions. If not, `npm run migrate` drops them with the
 * role of the owner.
 */
export const ownsPartitions = (db: Db): Promise<boolean> =>
  returnsRow(
    db,
    "select 1 from pg_class where oid = 'audit_events'::regclass and pg_has_role(relowner, 'usage')",
  );

/**
 * Partitions in which all events are older than the given month, with the lowest id of that month.
 * None while older events are unsealed or share the default partition with later ones: no event may
 * remain below what is dropped.
 */
export const droppablePartitions = (
  { em }: Db,
  firstDay: string,
): Promise<{ name: string; below: string }[]> =>
  em.execute(
    `select c.relname as name, m.below from (select audit_id_at(:firstDay::date) as below) as m
     cross join lateral (
       select coalesce(bool_or(id < m.below), false) as older, coalesce(bool_or(id >= m.below), false) as later
       from ${DEFAULT_PARTITION}) as d
     join pg_inherits i on i.inhparent = 'audit_events'::regclass join pg_class c on c.oid = i.inhrelid
     where not (d.older and d.later) and not exists (select from audit_unsealed where event_id < m.below)
       and (c.relname = '${DEFAULT_PARTITION}' and d.older
         or c.relname ~ '^audit_events_\\d{4}_\\d\\d$' and c.relname < 'audit_events_' || to_char(:firstDay::date, 'YYYY_MM'))
     order by name`,
    { firstDay },
  );

/** Drops partitions and their events. The default partition is replaced by an empty one. */
export async function dropTables({ em }: Db, names: string[]): Promise<void> {
  for (const name of names) await em.execute(`drop table ${name}`);
  if (!names.includes(DEFAULT_PARTITION)) return;
  await em.execute(`create table ${DEFAULT_PARTITION} partition of audit_events default`);
  await em.execute(
    `create trigger audit_untruncated before truncate on ${DEFAULT_PARTITION} execute function audit_refuse()`,
  );
}
