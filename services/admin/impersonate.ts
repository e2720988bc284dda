import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { lockOwnSession } from "../accounts/lock-users.ts";
import { recordAudit } from "../audit/record.ts";
import type { SignedInCall } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";
import { deviceOf } from "../sessions/open-session.ts";
import { createAccessToken } from "../sessions/tokens.ts";
import { insertImpersonation } from "../store/admin-users.ts";
import { newId } from "../store/ids.ts";
import { pruneImpersonations } from "../store/sign-in.ts";
import { lockUser, User } from "../store/users.ts";
import { userNotFound } from "./admin-user.ts";
import { assertRecentAdminSignIn } from "./guards.ts";

/** Longest impersonation, in ms. */
const MAX_DURATION_MS = 15 * 60_000;

/** An impersonation session. It has no refresh token, so it ends with its access token. */
export type Impersonation = { accessToken: string; user: User; expiresAt: Date };

/**
 * Opens a session in a user's name. It ends with the administrator's own session.
 * @throws ServiceError REAUTHENTICATION_REQUIRED, NOT_FOUND, SELF_TARGETED, CONFLICT for another administrator, UNAUTHENTICATED when that session has ended meanwhile
 */
export async function impersonate(call: SignedInCall, userId: string, reason = ""): Promise<Impersonation> {
  const admin = call.caller.user;
  assertRecentAdminSignIn(call);
  if (admin.id === userId) throw new ServiceError(Reason.SELF_TARGETED, "Administrators can't impersonate themselves.");
  const now = call.clock.now();
  const id = newId(now);
  const { user, expiresAt } = await call.em.transactional(async () => {
    await lockUser(call, userId); // waits for a promotion in progress
    const user = await call.em.findOne(User, { id: userId });
    if (!user || user.isDeletionDue(now)) throw userNotFound();
    await lockOwnSession(call);
    await pruneImpersonations(call, userId, now);
    const expiresAt = await openImpersonation(call, id, userId, now);
    await recordAudit(call, "admin.impersonated", { userId, details: { sessionId: id, ...(reason && { reason }) } });
    return { user, expiresAt };
  });
  const session = { id, generation: 0, rotatedAt: now, expiresAt, actorId: admin.id };
  return { accessToken: createAccessToken(call, session, user), user, expiresAt };
}

/** @returns when the session ends. @throws ServiceError CONFLICT if the user has become an administrator */
async function openImpersonation(call: SignedInCall, id: string, userId: string, now: Date): Promise<Date> {
  const { config, client, caller, locate } = call;
  const session = {
    id,
    userId,
    adminSessionId: caller.session.id,
    device: deviceOf(client.agent),
    ip: client.address,
    location: locate(client.address),
    expiresAt: new Date(now.getTime() + Math.min(MAX_DURATION_MS, config.accessTokenMs)),
  };
  const endsAt = await insertImpersonation(call, session, now);
  if (!endsAt) throw new ServiceError(Reason.CONFLICT, "Administrators can't be impersonated.");
  return endsAt;
}
