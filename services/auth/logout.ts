import { recordAudit } from "../audit.ts";
import type { SignedInCall } from "../call.ts";
import { revokeSession } from "../security/sessions.ts";

/** Ends the session that asks; none of its tokens works any more. */
export async function logout(call: SignedInCall): Promise<void> {
  await call.em.transactional(async () => {
    if (await revokeSession(call, call.caller.session.id)) {
      await recordAudit(call, "auth.logout", { userId: call.caller.user.id });
    }
  });
}
