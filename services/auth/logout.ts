import { lockUser } from "../accounts/lock-user.ts";
import { recordAudit } from "../audit/record.ts";
import type { SignedInCall } from "../call.ts";
import { revokeSession } from "../sessions/sessions.ts";
import { readRefreshToken } from "../sessions/tokens.ts";

/**
 * Ends the session that asks, and the one that the refresh token belongs to if it is another of the same user; none of
 * their tokens works any more. Under impersonation the refresh token is the administrator's own, and left alone.
 */
export async function logout(call: SignedInCall, refreshToken: string): Promise<void> {
  const { user, session } = call.caller;
  const presented = await readRefreshToken(call, refreshToken);
  const ended = presented?.userId === user.id ? [session.id, presented.sessionId] : [session.id];
  await call.em.transactional(async () => {
    await lockUser(call, user.id);
    for (const id of ended) {
      if (await revokeSession(call, id)) await recordAudit(call, "auth.logout", { userId: user.id });
    }
  });
}
