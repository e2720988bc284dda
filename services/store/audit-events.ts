import { type Page, type PageRequest, readPage, whereIf } from "./page.ts";
import type { Db } from "./store.ts";

/** A row of `audit_events`, by the names of its columns. */
export type AuditEventRow = {
  id: string;
  event: string;
  outcome: "success" | "failure";
  /** The user whom the event concerns. */
  user_id: string | null;
  /** The user who caused it. */
  actor_id: string | null;
  ip: string;
  user_agent: string;
  request_id: string;
  details: Record<string, unknown>;
  created_at: Date;
};

/** Inserts an event. It waits in `audit_unsealed` to be sealed, so that writers never wait for each other. */
export async function insertAuditEvent({ em }: Db, row: AuditEventRow): Promise<void> {
  await em.execute(
    `with recorded as (
       insert into audit_events select * from jsonb_populate_record(null::audit_events, ?::jsonb) returning id)
     insert into audit_unsealed (event_id) select id from recorded`,
    [JSON.stringify(row)],
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

/** A listed event; times as text. */
export type ListedAuditEvent = {
  id: string;
  event: string;
  outcome: string;
  userId: string | null;
  actorId: string | null;
  ip: string;
  userAgent: string;
  requestId: string;
  details: Record<string, string>;
  createdAt: string;
};

const COLUMNS = `t.id, t.event, t.outcome, t.user_id as "userId", t.actor_id as "actorId", t.ip, t.user_agent as "userAgent",
  t.request_id as "requestId", t.details, t.created_at as "createdAt"`;

/** Lists events, newest first. Ids begin with the time, so times become bounds of ids. @throws ServiceError VALIDATION_FAILED */
export function listAuditEvents(
  { em }: Db,
  { userId, actorId, event, from, to }: AuditFilter,
  request: PageRequest,
): Promise<Page<ListedAuditEvent>> {
  const where = [
    whereIf(userId, "t.user_id = ?"),
    whereIf(actorId, "t.actor_id = ?"),
    whereIf(event, "t.event = ?"),
    whereIf(from && firstIdAt(from), "t.id >= ?"),
    whereIf(to && firstIdAt(to), "t.id < ?"),
  ];
  return readPage<ListedAuditEvent>(em, { columns: COLUMNS, from: "audit_events", where }, request);
}

/** Greatest time that a UUIDv7 can hold, in ms. */
const MAX_UUID_MS = 2 ** 48 - 1;

/** The least id of a time. */
function firstIdAt(time: Date): string {
  const msecs = Math.min(Math.max(time.getTime(), 0), MAX_UUID_MS);
  const hex = msecs.toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
}
