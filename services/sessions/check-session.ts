import { setImmediate } from "node:timers/promises";
import type { Logger } from "pino";
import type { SessionClaims } from "../platform/gate/access-token.ts";
import { unauthenticated } from "../platform/gate/server-hooks.ts";
import { createBatch } from "../platform/process/batch.ts";
import type { Clock } from "../platform/process/clock.ts";
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
 * @throws ServiceError UNAUTHENTICATED
 */
export async function identify(
  call: Db & { findSession: FindSession; clock: Clock; lastSeen: LastSeen },
  claims: SessionClaims | undefined,
  onSessionEnded: () => void = () => {},
): Promise<SessionPrincipal> {
  const found = claims && (await call.findSession(claims.sessionId));
  if (!found) onSessionEnded();
  if (!claims || !found || found.user.id !== claims.userId) throw unauthenticated();
  const { id, generation, successorUsed, lastActiveAt } = found.session;
  if (!successorUsed && generation === claims.generation) {
    await call.em.nativeUpdate(Session, { id, generation }, { successorUsed: true });
  }
  const now = call.clock.now();
  if (now.getTime() - lastActiveAt.getTime() >= LAST_SEEN_RESOLUTION_MS)
    call.lastSeen.set(id, { id, at: now });
  return { kind: "session", authenticatedAt: found.session.createdAt, ...found };
}

/**
 * Finds an open session. Undefined if it has ended or, under impersonation, if the administrator's
 * session has.
 */
export type FindSession = (id: string) => Promise<FoundSession | undefined>;

/**
 * Reads the session for every request, without a cache. Requests that arrive in the same tick of the
 * event loop share one statement.
 */
export function createFindSession(db: HotDb, clock: Clock): FindSession {
  const ids = new Set<string>();
  let pending: Promise<Map<string, FoundSession>> | undefined;
  const load = async () => {
    await setImmediate();
    const batch = [...ids];
    ids.clear();
    pending = undefined; // later callers share the next statement
    return findOpenSessions(db, batch, clock.now());
  };
  return async (id) => {
    ids.add(id);
    pending ??= load();
    return (await pending).get(id);
  };
}

/**
 * Resolution of `last_active_at`, in ms. Together with the write interval, it is less than a minute.
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
