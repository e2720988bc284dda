import type { Call } from "../call.ts";
import { revokeAllSessions, Session } from "../store/sessions.ts";
import { lockUser } from "../store/users.ts";

/** Revokes a session; impersonations opened from it end with it. @returns false if it was revoked already. */
export async function revokeSession(call: Pick<Call, "em" | "clock">, id: string): Promise<boolean> {
  const revoked = await call.em.nativeUpdate(Session, { id, revokedAt: null }, { revokedAt: call.clock.now() });
  return revoked > 0;
}

/** Revokes a user's sessions except one. Joins the caller's transaction. @returns how many were open. */
export async function revokeSessions(
  call: Pick<Call, "em" | "clock">,
  userId: string,
  exceptId: string | null = null,
): Promise<number> {
  await lockUser(call, userId);
  return revokeAllSessions(call, userId, exceptId, call.clock.now());
}

/** Revokes the sessions that administrators have opened as this user. */
export async function endImpersonations(call: Pick<Call, "em" | "clock">, userId: string): Promise<void> {
  const isOpen = { user: userId, actorId: { $ne: null }, revokedAt: null };
  await call.em.nativeUpdate(Session, isOpen, { revokedAt: call.clock.now() });
}
