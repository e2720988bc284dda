import { type Timestamp, timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { Call, SignedInCall } from "../call.ts";

/** An open session of a user; times as text. */
export type OpenSession = {
  id: string;
  device: string;
  ip: string;
  location: string | null;
  actor_id: string | null;
  created_at: string;
  last_active_at: string;
};

/** Lists a user's open sessions, newest first; those an administrator opened end with the administrator's. */
export function listOpenSessions(call: Pick<Call, "em" | "clock">, userId: string): Promise<OpenSession[]> {
  return call.em.execute<OpenSession[]>(
    `select s.id, s.device, s.ip, s.location, s.actor_id, s.created_at, s.last_active_at
     from sessions s left join sessions a on a.id = s.actor_session_id
     where s.user_id = ? and s.revoked_at is null and s.expires_at > ? and a.revoked_at is null
     order by s.created_at desc, s.id desc`,
    [userId, call.clock.now()],
  );
}

/** A session as its message. The one that asks is in use now, whatever has been written so far. */
export function sessionMessage(row: OpenSession, { caller, clock }: Pick<SignedInCall, "caller" | "clock">) {
  const current = row.id === caller.session.id;
  return {
    id: row.id,
    device: row.device,
    ip: row.ip,
    ...(row.location !== null && { location: row.location }),
    createdAt: time(row.created_at),
    lastActive: current ? timestampFromDate(clock.now()) : time(row.last_active_at),
    current,
    ...(row.actor_id !== null && { impersonated: true }),
  };
}

function time(text: string): Timestamp {
  return timestampFromDate(new Date(text));
}
