import { lockCaller } from "../accounts/lock-caller.ts";
import { recordAudit } from "../audit/record.ts";
import type { SignedInCall } from "../call.ts";
import { revokeSessions } from "../sessions/revoke-sessions.ts";

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
