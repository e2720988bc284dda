import { recordAudit } from "../audit/record.ts";
import type { SignedInCall } from "../call.ts";
import { readRefreshToken } from "../sessions/tokens.ts";
import { revokeSession } from "../store/sessions.ts";
import { lockUser } from "../store/users.ts";

/**
 * Ends the caller's session, and that of the refresh token if it is another one of the same user. Under impersonation
 * the refresh token is the administrator's own and stays valid.
 */
export async function logout(call: SignedInCall, refreshToken: string): Promise<void> {
  const { user, session } = call.caller;
  const presented = await readRefreshToken(call, refreshToken);
  const ended = presented?.userId === user.id ? [session.id, presented.sessionId] : [session.id];
  await call.em.transactional(async () => {
    await lockUser(call, user.id);
    for (const id of ended) {
      if (await revokeSession(call, id, user.id)) await recordAudit(call, "auth.logout", { userId: user.id });
    }
  });
}
