import type { Logger } from "pino";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { every } from "../platform/process/background.ts";
import type { Clock } from "../platform/process/clock.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { findOpenSessions } from "../store/sessions.ts";
import type { HotDb } from "../store/statement.ts";

/**
 * Interval in which the sessions of open streams are read, in ms. A revocation ends a stream within
 * about this time.
 */
const WATCH_INTERVAL_MS = 750;

/**
 * Ends streams when their session ends, whichever process ended it. One statement per interval
 * checks all of them.
 */
export function createSessionWatcher(db: HotDb, clock: Clock, log: Pick<Logger, "warn">) {
  const watched = new Map<AbortController, string>();
  const run = async () => {
    const checked = [...watched];
    if (checked.length === 0) return;
    const ids = checked.map(([, sessionId]) => sessionId);
    const open = await findOpenSessions(db, ids, clock.now()); // while it fails, no stream ends
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
     * @returns what aborts when the client disconnects, or with a ServiceError when the session has
     * ended
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
