import type { Session } from "./sessions.ts";
import { type AsRead, type Db, type HotDb, prepared } from "./store.ts";
import type { User } from "./users.ts";

/** A session and its user, as a refresh needs them. */
export type RefreshedSession = Pick<
  Session,
  "id" | "generation" | "successorUsed" | "rotatedAt" | "expiresAt" | "device" | "actorId"
> & { isRevoked: boolean; user: Pick<User, "id" | "email" | "name" | "role"> };

type Row = AsRead<Omit<RefreshedSession, "user"> & { userId: string; email: string; name: string; role: User["role"] }>;

const COLUMNS = `s.id, s.generation, s.acknowledged as "successorUsed", s.rotated_at as "rotatedAt",
  s.expires_at as "expiresAt", s.revoked_at is not null as "isRevoked", s.device, s.actor_id as "actorId",
  u.id as "userId", u.email, u.name, u.role`;

const ROTATE = prepared(
  "rotate_session",
  `update sessions as s set generation = s.generation + 1, acknowledged = false, rotated_at = ?, last_active_at = ?,
     ip = ?, location = ?, expires_at = least(s.ends_at, ?)
   from users as u
   where u.id = s.user_id and s.id = ? and s.user_id = ? and s.generation = ? and s.revoked_at is null and s.expires_at > ?
   returning ${COLUMNS}`,
);

/** Which session a refresh token names, at which generation. */
type Claims = { sessionId: string; userId: string; generation: number };

/**
 * The statement of the refresh rotation: increments the generation of an open session. Guarded by the generation that the token carries: of several callers
 * one rotates. One prepared statement.
 * @returns the session after it, or undefined if it is not open or of another generation.
 */
export async function rotateSession(
  { query }: HotDb,
  { sessionId, userId, generation }: Claims,
  seen: { now: Date; address: string; location: string | null; expiresAt: Date },
): Promise<RefreshedSession | undefined> {
  const { now, address, location, expiresAt } = seen;
  const values = [now, now, address, location, expiresAt, sessionId, userId, generation, now];
  const [row] = await query<Row>(ROTATE, values);
  return row && toRefreshedSession(row);
}

/** Reads a session as it stands, open or not. @returns undefined if that user has no such session. */
export async function findSessionForRefresh(
  { em }: Db,
  { sessionId, userId }: Claims,
): Promise<RefreshedSession | undefined> {
  const [row] = await em.execute<Row[]>(
    `select ${COLUMNS} from sessions as s join users as u on u.id = s.user_id where s.id = ? and s.user_id = ?`,
    [sessionId, userId],
  );
  return row && toRefreshedSession(row);
}

function toRefreshedSession({ userId, email, name, role, ...session }: Row): RefreshedSession {
  return {
    ...session,
    rotatedAt: new Date(session.rotatedAt),
    expiresAt: new Date(session.expiresAt),
    user: { id: userId, email, name, role },
  };
}
