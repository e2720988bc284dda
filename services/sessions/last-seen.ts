import type { Logger } from "pino";
import { createBatch } from "../jobs/batch.ts";
import { updateLastActive } from "../store/sessions.ts";
import type { Store } from "../store/store.ts";

/** Uses of sessions are written together after this time, in ms; the same after a failure. */
const FLUSH_INTERVAL_MS = 1_000;
/** Sessions of one statement, and most that wait while the database is unreachable. */
const BATCH_SIZE = 500;
const MAX_WAITING = 10_000;
/** A session's time is written again when it is this old, in ms: with the above well within a minute. */
export const LAST_SEEN_RESOLUTION_MS = 30_000;

/** Writes when sessions were last active, off the request path. */
export type LastSeen = {
  touch(sessionId: string, at: Date): void;
  /** Writes what is left. */
  close(): Promise<void>;
};

/** Starts the writer of `last_active_at`. */
export function createLastSeen(store: Pick<Store, "fork">, log: Pick<Logger, "warn">): LastSeen {
  const batch = createBatch<{ id: string; at: Date }>({
    name: "last seen",
    intervalMs: FLUSH_INTERVAL_MS,
    retryMs: FLUSH_INTERVAL_MS,
    batchSize: BATCH_SIZE,
    maxItems: MAX_WAITING,
    write: (sessions) => updateLastActive({ em: store.fork() }, sessions),
    log,
  });
  return { touch: (id, at) => batch.set(id, { id, at }), close: batch.flush };
}
