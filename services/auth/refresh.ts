import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { lockUser } from "../accounts/lock-user.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { queueEmail } from "../mail/queue.ts";
import { ServiceError } from "../platform/errors.ts";
import { revokeSession } from "../sessions/sessions.ts";
import { createTokenPair, readRefreshToken, type SessionClaims, type TokenPair } from "../sessions/tokens.ts";
import { prepared } from "../store/store.ts";
import type { Role } from "../store/user.ts";

type SessionRow = {
  id: string;
  generation: number;
  successor_used: boolean;
  rotated_at: string;
  expires_at: string;
  revoked_at: string | null;
  device: string;
  user_id: string;
  email: string;
  name: string;
  role: Role;
};

const COLUMNS = `s.id, s.generation, s.acknowledged as successor_used, s.rotated_at, s.expires_at, s.revoked_at, s.device,
  u.id as user_id, u.email, u.name, u.role`;

/**
 * Exchanges a refresh token for its successor. One guarded statement rotates, so of parallel callers one does and the
 * others, finding the row one generation on, rebuild the identical pair: nobody is signed out by a race or a lost
 * answer. That grace ends when the successor is first used, or after `REFRESH_GRACE`. Any older token ends the session.
 * @throws ServiceError REFRESH_TOKEN_INVALID
 */
export async function refresh(call: Call, token: string): Promise<TokenPair> {
  const claims = token ? await readRefreshToken(call, token) : undefined;
  const rotated = claims && (await rotate(call, claims));
  if (rotated) return rebuild(call, rotated);
  const row = claims && (await find(call, claims));
  if (!claims || !row || !isOpen(row, call.clock.now())) throw invalidToken();
  if (row.generation === claims.generation + 1 && inGrace(call, row)) return rebuild(call, row);
  if (row.generation > claims.generation) await endReused(call, row);
  throw invalidToken();
}

/** Guarded by the generation that the token carries. */
const ROTATE = prepared(
  "rotate_session",
  `update sessions as s set generation = s.generation + 1, acknowledged = false, rotated_at = ?, last_active_at = ?,
     ip = ?, location = ?, expires_at = least(s.ends_at, ?)
   from users as u
   where u.id = s.user_id and s.id = ? and s.user_id = ? and s.generation = ? and s.revoked_at is null and s.expires_at > ?
   returning ${COLUMNS}`,
);

async function rotate(call: Call, { sessionId, userId, generation }: SessionClaims): Promise<SessionRow | undefined> {
  const now = call.clock.now();
  const { address } = call.client;
  const expiresAt = new Date(now.getTime() + call.config.refreshTokenMs);
  const seen = [now, now, address, call.locate(address), expiresAt];
  const [row] = await call.query<SessionRow>(ROTATE, [...seen, sessionId, userId, generation, now]);
  return row;
}

async function find(call: Call, { sessionId, userId }: SessionClaims): Promise<SessionRow | undefined> {
  const [row] = await call.em.execute<SessionRow[]>(
    `select ${COLUMNS} from sessions as s join users as u on u.id = s.user_id where s.id = ? and s.user_id = ?`,
    [sessionId, userId],
  );
  return row;
}

function isOpen(row: SessionRow, now: Date): boolean {
  return row.revoked_at === null && new Date(row.expires_at) > now;
}

function inGrace({ clock, config }: Call, row: SessionRow): boolean {
  return !row.successor_used && clock.now().getTime() - new Date(row.rotated_at).getTime() <= config.refreshGraceMs;
}

function rebuild(call: Call, row: SessionRow): TokenPair {
  const session = {
    id: row.id,
    generation: row.generation,
    rotatedAt: new Date(row.rotated_at),
    expiresAt: new Date(row.expires_at),
    actorId: null,
  };
  return createTokenPair(call, session, { id: row.user_id, email: row.email, role: row.role });
}

/**
 * Committed before the refusal is told; of several callers one ends the session and tells the user. A caller who has
 * gone meanwhile reveals nothing: this process may have stood still, and they have asked another one since.
 */
async function endReused(call: Call, row: SessionRow): Promise<void> {
  await call.em.transactional(async () => {
    await lockUser(call, row.user_id);
    call.signal.throwIfAborted();
    if (!(await revokeSession(call, row.id))) return;
    await recordAudit(call, "auth.refresh_reused", {
      userId: row.user_id,
      outcome: "failure",
      details: { sessionId: row.id },
    });
    await queueEmail(call, {
      userId: row.user_id,
      to: row.email,
      template: "session-reused",
      variables: { name: row.name, device: row.device },
    });
  });
}

function invalidToken(): ServiceError {
  return new ServiceError(
    Reason.REFRESH_TOKEN_INVALID,
    "The refresh token is missing, invalid or expired. Please sign in.",
  );
}
