import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { queueEmail } from "../mail/queue.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { createTokenPair, readRefreshToken, type TokenPair } from "../sessions/tokens.ts";
import { revokeSession } from "../store/sessions.ts";
import { findSessionForRefresh, type RefreshedSession, rotateSession } from "../store/sign-in.ts";
import { lockUser } from "../store/users.ts";

/**
 * Refresh rotation: exchanges a refresh token for its successor. Of several callers with the same
 * token, one rotates the session. The others find the session one generation ahead and get the same
 * pair, until that pair is first used or `REFRESH_GRACE` has passed. An older token ends the
 * session.
 * @throws ServiceError REFRESH_TOKEN_INVALID
 */
export async function refresh(call: Call, token: string): Promise<TokenPair> {
  const claims = token ? await readRefreshToken(call, token) : undefined;
  if (!claims) throw invalidToken();
  const now = call.clock.now();
  const { address } = call.client;
  const expiresAt = new Date(now.getTime() + call.config.refreshTokenTtlMs);
  const [rotated] = await rotateSession(call, {
    ...claims,
    now,
    address,
    location: call.locate(address),
    expiresAt,
  });
  if (rotated) return createTokenPair(call, rotated, rotated.user);
  const session = await findSessionForRefresh(call, claims);
  if (!session || session.isRevoked || session.expiresAt <= call.clock.now()) throw invalidToken();
  const ageMs = call.clock.now().getTime() - session.rotatedAt.getTime();
  const isInGrace = !session.successorUsed && ageMs <= call.config.refreshGraceMs;
  if (isInGrace && session.generation === claims.generation + 1)
    return createTokenPair(call, session, session.user);
  if (session.generation > claims.generation) await endReused(call, session);
  throw invalidToken();
}

/**
 * Ends a session because an old token was used again. Committed before the error is returned; only
 * one of several callers ends the session and notifies the user. Not done for a caller that has
 * disconnected: this process may have been suspended while the client refreshed elsewhere.
 */
async function endReused(call: Call, { id, device, user }: RefreshedSession): Promise<void> {
  await call.em.transactional(async () => {
    await lockUser(call, user.id);
    call.signal.throwIfAborted();
    if (!(await revokeSession(call, id, user.id))) return;
    const details = { sessionId: id };
    await recordAudit(call, "auth.refresh_reused", {
      userId: user.id,
      outcome: "failure",
      details,
    });
    await queueEmail(call, user, "session-reused", { device });
  });
}

const invalidToken = () =>
  new ServiceError(
    Reason.REFRESH_TOKEN_INVALID,
    "The refresh token is missing, invalid or expired. Please sign in.",
  );
