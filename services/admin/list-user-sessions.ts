import type { SignedInCall } from "../call.ts";
import { requireUser } from "./admin-user.ts";

/** An open session of a user; times as text. */
export type SessionRow = {
  id: string;
  device: string;
  ip: string;
  location: string | null;
  actor_id: string | null;
  created_at: string;
  last_active_at: string;
};

/** Lists a user's open sessions, newest first; those an administrator opened end with the administrator's. @throws Refusal NOT_FOUND */
export async function listUserSessions(
  call: Pick<SignedInCall, "em" | "clock">,
  userId: string,
): Promise<SessionRow[]> {
  await requireUser(call.em, userId);
  const now = call.clock.now();
  return call.em.execute<SessionRow[]>(
    `select s.id, s.device, s.ip, s.location, s.actor_id, s.created_at, s.last_active_at
     from sessions s left join sessions a on a.id = s.actor_session_id
     where s.user_id = ? and s.revoked_at is null and s.expires_at > ? and s.ends_at > ?
       and (a.id is null or (a.revoked_at is null and a.expires_at > ? and a.ends_at > ?))
     order by s.created_at desc, s.id desc`,
    [userId, now, now, now, now],
  );
}
