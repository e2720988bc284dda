import type { Call } from "../call.ts";
import type { SessionClaims } from "../platform/access-token.ts";
import { unauthenticated } from "../platform/server-hooks.ts";
import { type FoundSession, Session } from "../store/sessions.ts";
import { LAST_SEEN_RESOLUTION_MS } from "./last-seen.ts";

/**
 * Finds the caller of an access token. The session's row is read for every request, so every process refuses a revoked
 * one at once. The first use of a refreshed token pair ends the reuse interval of the one before it.
 * @throws ServiceError UNAUTHENTICATED
 */
export async function identify(
  call: Pick<Call, "em" | "findSession" | "clock" | "lastSeen">,
  claims: SessionClaims | undefined,
): Promise<FoundSession> {
  const found = claims && (await call.findSession(claims.sessionId));
  if (!claims || !found || found.user.id !== claims.userId) {
    throw unauthenticated();
  }
  const { id, generation, successorUsed, lastActiveAt } = found.session;
  if (!successorUsed && generation === claims.generation) {
    await call.em.nativeUpdate(Session, { id, generation }, { successorUsed: true });
  }
  const now = call.clock.now();
  if (now.getTime() - lastActiveAt.getTime() >= LAST_SEEN_RESOLUTION_MS) call.lastSeen.touch(id, now);
  return found;
}
