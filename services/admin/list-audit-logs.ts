import type { Call } from "../call.ts";
import { type Page, type PageRequest, readPage, whereIf } from "./page.ts";

/** Which audit events. */
export type AuditFilter = {
  userId?: string | undefined;
  actorId?: string | undefined;
  event?: string | undefined;
  /** Not before. */
  from?: Date | undefined;
  /** Before. */
  to?: Date | undefined;
};

/** Something that happened; times as text. */
export type AuditRow = {
  id: string;
  event: string;
  outcome: string;
  user_id: string | null;
  actor_id: string | null;
  ip: string;
  user_agent: string;
  request_id: string;
  details: Record<string, string>;
  created_at: string;
};

/** Lists audit events, newest first. Ids begin with the time, so times become bounds of ids. */
export function listAuditLogs(
  call: Pick<Call, "em">,
  { userId, actorId, event, from, to }: AuditFilter,
  request: PageRequest,
): Promise<Page<AuditRow>> {
  const columns =
    "t.id, t.event, t.outcome, t.user_id, t.actor_id, t.ip, t.user_agent, t.request_id, t.details, t.created_at";
  const where = [
    whereIf(userId, "t.user_id = ?"),
    whereIf(actorId, "t.actor_id = ?"),
    whereIf(event, "t.event = ?"),
    whereIf(from && firstIdAt(from), "t.id >= ?"),
    whereIf(to && firstIdAt(to), "t.id < ?"),
  ];
  return readPage<AuditRow>(call.em, { columns, from: "audit_events", where }, request);
}

/** Times that a UUIDv7 can hold, in ms. */
const LAST_MS = 2 ** 48 - 1;

/** The least id of a time. */
function firstIdAt(time: Date): string {
  const msecs = Math.min(Math.max(time.getTime(), 0), LAST_MS);
  const hex = msecs.toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
}
