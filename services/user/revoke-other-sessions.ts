import { recordAudit } from "../audit.ts";
import type { SignedInCall } from "../call.ts";
import { revokeSessions } from "../security/sessions.ts";

/** Ends every session of the caller but the one that asks. @returns how many */
export async function revokeOtherSessions(call: SignedInCall): Promise<number> {
  const { user, session } = call.caller;
  return call.em.transactional(async () => {
    const ended = await revokeSessions(call, user.id, session.id);
    await recordAudit(call, "user.session_revoked", { userId: user.id, details: { others: ended } });
    return ended;
  });
}
