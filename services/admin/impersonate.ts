import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { isDeletionDue } from "../accounts/find-user.ts";
import { lockOwnSession, lockUser } from "../accounts/lock-user.ts";
import { recordAudit } from "../audit/record.ts";
import type { SignedInCall } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";
import { deviceOf, dropOldestImpersonations } from "../sessions/sessions.ts";
import { createAccessToken } from "../sessions/tokens.ts";
import { newId } from "../store/ids.ts";
import { User } from "../store/user.ts";
import { userNotFound } from "./admin-user.ts";

/** Longest impersonation, in ms. */
const LONGEST_MS = 15 * 60_000;

/** A session in somebody else's name; nothing refreshes it, so it ends with its only token. */
export type Impersonation = { accessToken: string; user: User; expiresAt: Date };

/**
 * Opens a session in a user's name, which ends with the administrator's own.
 * @throws ServiceError NOT_FOUND, SELF_TARGETED, CONFLICT for another administrator, UNAUTHENTICATED when that session has ended meanwhile
 */
export async function impersonate(call: SignedInCall, userId: string, reason = ""): Promise<Impersonation> {
  const admin = call.caller.user;
  if (admin.id === userId) throw new ServiceError(Reason.SELF_TARGETED, "Administrators can't impersonate themselves.");
  const now = call.clock.now();
  const id = newId(now);
  const { user, expiresAt } = await call.em.transactional(async () => {
    await lockUser(call, userId); // who is being promoted is an administrator by the time it is granted
    const user = await call.em.findOne(User, { id: userId });
    if (!user || isDeletionDue(user, now)) throw userNotFound();
    await lockOwnSession(call);
    await dropOldestImpersonations(call, userId);
    const expiresAt = await open(call, id, userId, now);
    await recordAudit(call, "admin.impersonated", { userId, details: { sessionId: id, ...(reason && { reason }) } });
    return { user, expiresAt };
  });
  const session = { id, generation: 0, rotatedAt: now, expiresAt, actorId: admin.id };
  return { accessToken: createAccessToken(call, session, user), user, expiresAt };
}

/** Opens the session, unless the user is an administrator by then. @returns when it ends */
async function open(call: SignedInCall, id: string, userId: string, now: Date): Promise<Date> {
  const { em, config, client, caller, locate } = call;
  const end = new Date(now.getTime() + Math.min(LONGEST_MS, config.accessTokenMs));
  const [opened] = await em.execute<{ ends_at: string }[]>(
    `insert into sessions (id, user_id, rotated_at, device, ip, location, actor_id, actor_session_id, created_at, last_active_at,
       expires_at, ends_at)
     select ?::uuid, u.id, ?::timestamptz, ?, ?, ?, s.user_id, s.id, ?::timestamptz, ?::timestamptz,
       least(?::timestamptz, s.expires_at), least(?::timestamptz, s.expires_at)
     from users u, sessions s where u.id = ? and u.role <> 'admin' and s.id = ?
     returning ends_at`,
    [
      id,
      now,
      deviceOf(client.agent),
      client.address,
      locate(client.address),
      now,
      now,
      end,
      end,
      userId,
      caller.session.id,
    ],
  );
  if (!opened) throw new ServiceError(Reason.CONFLICT, "Administrators can't be impersonated.");
  return new Date(opened.ends_at);
}
