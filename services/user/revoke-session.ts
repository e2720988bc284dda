import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { lockCaller } from "../accounts/lock-users.ts";
import { recordAudit } from "../audit/record.ts";
import type { SignedInCall } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";
import { revokeSession, revokeSessions } from "../store/sessions.ts";

/** Ends one open session of the caller. Another user's session is NOT_FOUND. @throws ServiceError NOT_FOUND, UNAUTHENTICATED */
export async function revokeOwnSession(call: SignedInCall, sessionId: string): Promise<void> {
  const { id: userId } = call.caller.user;
  await call.em.transactional(async () => {
    await lockCaller(call);
    if (!(await revokeSession(call, sessionId, userId))) {
      throw new ServiceError(Reason.NOT_FOUND, "There is no such session.");
    }
    await recordAudit(call, "user.session_revoked", { userId, details: { sessionId } });
  });
}

/** Ends every session of the caller but the current one. @returns how many. @throws ServiceError UNAUTHENTICATED */
export async function revokeOtherSessions(call: SignedInCall): Promise<number> {
  const { user, session } = call.caller;
  return call.em.transactional(async () => {
    await lockCaller(call); // of two sessions that end each other one stays
    const ended = await revokeSessions(call, user.id, session.id);
    await recordAudit(call, "user.session_revoked", { userId: user.id, details: { others: ended } });
    return ended;
  });
}
