import type { Logger } from "pino";
import type { SessionClaims } from "../platform/gate/access-token.ts";
import { unauthenticated } from "../platform/gate/authenticate.ts";
import { createBatch } from "../platform/process/batch.ts";
import type { Clock } from "../platform/process/clock.ts";
import { createSharedRead } from "../platform/process/shared-read.ts";
import type { SessionPrincipal } from "../principal.ts";
import {
  type FoundSession,
  findOpenSessions,
  Session,
  updateLastActive,
} from "../store/sessions.ts";
import type { Db, HotDb } from "../store/statement.ts";
import type { Store } from "../store/store.ts";

/**
 * Finds the principal for an access token. The session row is read for every request, so that every
 * process rejects a revoked session immediately. The first use of a refreshed token pair ends the
 * grace period of its predecessor.
 * @param lookup of the session, if it has begun
 * @throws ServiceError UNAUTHENTICATED
 */
export async function identifySession(
  call: Db & { findSession: FindSession; clock: Clock; lastSeen: LastSeen },
  claims: SessionClaims | undefined,
  onEnded: () => void = () => {},
  lookup: ReturnType<FindSession> | undefined = claims && call.findSession(claims.sessionId),
): Promise<SessionPrincipal> {
  const found = await lookup;
  if (!found) onEnded();
  if (!claims || !found || found.user.id !== claims.userId) throw unauthenticated();
  const { id, generation, successorUsed, lastActiveAt } = found.session;
  if (!successorUsed && generation === claims.generation) {
    await call.em.nativeUpdate(Session, { id, generation }, { successorUsed: true });
  }
  const now = call.clock.now();
  if (now.getTime() - lastActiveAt.getTime() >= LAST_SEEN_RESOLUTION_MS)
    call.lastSeen.set(id, { id, at: now });
  const { createdAt, confirmedAt } = found.session;
  return { kind: "session", authenticatedAt: confirmedAt ?? createdAt, ...found };
}

/**
 * Finds an open session. Undefined if it has ended or, under impersonation, if the administrator's
 * session has.
 */
export type FindSession = (id: string) => Promise<FoundSession | undefined>;

/** Reads the session for every request, without a cache. */
export const createFindSession = (db: HotDb, clock: Clock): FindSession =>
  createSharedRead((ids) => findOpenSessions(db, ids, clock.now()));

/**
 * Resolution of `last_active_at`, in ms. Together with the write interval, it is less than a
 * minute.
 */
const LAST_SEEN_RESOLUTION_MS = 30_000;

/** When sessions were last active, by session id. */
export type LastSeen = ReturnType<typeof createLastSeen>;

/** Starts writing `last_active_at` in the background, off the request path. */
export function createLastSeen(store: Pick<Store, "fork">, log: Pick<Logger, "warn">) {
  return createBatch<{ id: string; at: Date }>({
    name: "last seen",
    intervalMs: 1_000,
    batchSize: 500,
    write: (sessions) => updateLastActive({ em: store.fork() }, sessions),
    log,
  });
}
