import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { lockCaller } from "../accounts/guards.ts";
import { recordAudit } from "../audit/record.ts";
import type { SessionCall } from "../call.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { readRefreshToken } from "../sessions/tokens.ts";
import { revokeSession, revokeSessions } from "../store/sessions.ts";
import { lockUser } from "../store/users.ts";

/**
 * Ends the caller's session, and that of the refresh token if it is another one of the same user.
 * Under impersonation, the refresh token is the administrator's own and stays valid.
 */
export async function logout(call: SessionCall, refreshToken: string): Promise<void> {
  const { user, session } = call.principal;
  const presented = await readRefreshToken(call, refreshToken);
  const ended = presented?.userId === user.id ? [session.id, presented.sessionId] : [session.id];
  await call.em.transactional(async () => {
    await lockUser(call, user.id);
    for (const id of ended) {
      if (await revokeSession(call, id, user.id))
        await recordAudit(call, "auth.logout", { userId: user.id });
    }
  });
}

/**
 * Ends one of the caller's open sessions. Another user's session is NOT_FOUND.
 * @throws ServiceError NOT_FOUND, UNAUTHENTICATED
 */
export async function revokeOwnSession(call: SessionCall, sessionId: string): Promise<void> {
  const { id: userId } = call.principal.user;
  await call.em.transactional(async () => {
    await lockCaller(call);
    if (!(await revokeSession(call, sessionId, userId))) {
      throw new ServiceError(Reason.NOT_FOUND, "There is no such session.");
    }
    await recordAudit(call, "user.session_revoked", { userId, details: { sessionId } });
  });
}

/**
 * Ends all of the caller's sessions except the current one.
 * @returns the number of sessions ended
 * @throws ServiceError UNAUTHENTICATED
 */
export async function revokeOtherSessions(call: SessionCall): Promise<number> {
  const { user, session } = call.principal;
  return call.em.transactional(async () => {
    await lockCaller(call); // if two sessions end each other, one remains
    const ended = await revokeSessions(call, user.id, session.id);
    await recordAudit(call, "user.session_revoked", {
      userId: user.id,
      details: { others: ended },
    });
    return ended;
  });
}
