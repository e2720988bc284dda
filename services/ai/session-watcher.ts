import type { Logger } from "pino";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { every } from "../platform/process/background.ts";
import type { Clock } from "../platform/process/clock.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { findOpenSessions } from "../store/sessions.ts";
import type { HotDb } from "../store/statement.ts";

/**
 * Interval between checks of the sessions of open streams, in ms. A revocation ends a stream within
 * about this time.
 */
const WATCH_INTERVAL_MS = 750;

/**
 * Ends streams when their session ends, in whichever process that happened. One statement per
 * interval checks all sessions.
 */
export function createSessionWatcher(db: HotDb, clock: Clock, log: Pick<Logger, "warn">) {
  const watched = new Map<AbortController, string>();
  const run = async () => {
    const checked = [...watched];
    if (checked.length === 0) return;
    const ids = checked.map(([, sessionId]) => sessionId);
    const open = await findOpenSessions(db, ids, clock.now()); // if it fails, no stream ends
    for (const [controller, sessionId] of checked) {
      if (!open.has(sessionId))
        controller.abort(new ServiceError(Reason.UNAUTHENTICATED, "The session has ended."));
    }
  };
  const { close } = every(
    { name: "watch sessions", intervalMs: WATCH_INTERVAL_MS, run },
    { clock, log },
  );
  return {
    /**
     * Watches a session until `end` is called.
     * @returns a signal that aborts when the client disconnects, or with a ServiceError when the
     * session has ended
     */
    watch(sessionId: string, client: AbortSignal) {
      const controller = new AbortController();
      watched.set(controller, sessionId);
      return {
        signal: AbortSignal.any([client, controller.signal]),
        end: () => watched.delete(controller),
      };
    },
    close,
  };
}
