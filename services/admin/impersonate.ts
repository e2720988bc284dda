import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { assertRecentAdminSignIn, lockOwnSession } from "../accounts/guards.ts";
import { recordAudit } from "../audit/record.ts";
import type { SessionCall } from "../call.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { newSession } from "../sessions/open-session.ts";
import { createAccessToken } from "../sessions/tokens.ts";
import { canonicalId } from "../store/ids.ts";
import { Session } from "../store/sessions.ts";
import { dropSurplusImpersonation } from "../store/sign-in.ts";
import { lockUser, User } from "../store/users.ts";
import { userNotFound } from "./manage-user.ts";

/** Maximum duration of an impersonation, in ms. */
const MAX_DURATION_MS = 15 * 60_000;

/**
 * Opens a session as another user. It has no refresh token, so it ends with its access token or
 * with the administrator's own session.
 * @throws ServiceError REAUTHENTICATION_REQUIRED, NOT_FOUND, SELF_TARGETED, CONFLICT for a
 * protected administrator, UNAUTHENTICATED if the administrator's session has ended in the meantime
 */
export async function impersonate(call: SessionCall, id: string, reason = "") {
  const userId = canonicalId(id);
  const admin = call.principal.user;
  assertRecentAdminSignIn(call);
  if (admin.id === userId)
    throw new ServiceError(Reason.SELF_TARGETED, "Administrators can't impersonate themselves.");
  const durationMs = Math.min(MAX_DURATION_MS, call.config.accessTokenTtlMs);
  const session = newSession(call, [], durationMs, durationMs);
  const { id: sessionId, createdAt } = session;
  const { user, expiresAt } = await call.em.transactional(async () => {
    await lockUser(call, userId); // waits for a promotion in progress
    const user = await call.em.findOne(User, { id: userId });
    if (!user || user.isDeletionDue(createdAt)) throw userNotFound();
    await lockOwnSession(call);
    if (user.isService)
      throw new ServiceError(Reason.CONFLICT, "Service accounts can't be impersonated.");
    if (user.suspendedAt)
      throw new ServiceError(Reason.CONFLICT, "Suspended users can't be impersonated.");
    if (user.isProtectedAsAdmin(createdAt)) {
      const message = "Users who are or recently were administrators can't be impersonated.";
      throw new ServiceError(Reason.CONFLICT, message);
    }
    const own = await call.em.findOneOrFail(Session, { id: call.principal.session.id });
    const expiresAt = new Date(Math.min(session.expiresAt.getTime(), own.expiresAt.getTime()));
    const times = { rotatedAt: createdAt, lastActiveAt: createdAt, expiresAt, endsAt: expiresAt };
    const began = { ...session, ...times, generation: 0, successorUsed: false };
    await dropSurplusImpersonation(call, userId);
    await call.em.insert(Session, {
      ...began,
      user: userId,
      actorId: admin.id,
      actorSessionId: own.id,
    });
    await recordAudit(call, "admin.impersonated", {
      userId,
      details: { sessionId, ...(reason && { reason }) },
    });
    return { user, expiresAt };
  });
  const tokenSession = {
    id: sessionId,
    generation: 0,
    rotatedAt: createdAt,
    expiresAt,
    actorId: admin.id,
    methods: [],
    createdAt,
  };
  return { accessToken: createAccessToken(call, tokenSession, user), user, expiresAt };
}
