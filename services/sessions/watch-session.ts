import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { ServiceError } from "../platform/errors.ts";
import type { Clock } from "../platform/process.ts";
import { selectOpenSessions } from "../store/sessions.ts";
import type { HotDb } from "../store/store.ts";

/** Poll interval for the sessions of open streams, in ms. A revocation ends a stream within about this time. */
const POLL_INTERVAL_MS = 750;

/** A long call that may continue only while its session is open. */
export type SessionSubscription = {
  /** Aborts when the client disconnects, or with a ServiceError when the session has ended. */
  signal: AbortSignal;
  /** Stops watching. */
  end(): void;
};

/** Ends long calls when their session ends, whichever process ended it. */
export type SessionWatcher = { watch(sessionId: string, client: AbortSignal): SessionSubscription };

/** One statement per interval checks all watched sessions. Without open streams there is none. */
export function createSessionWatcher(db: HotDb, clock: Clock): SessionWatcher {
  const watched = new Set<{ sessionId: string; controller: AbortController }>();
  let isScheduled = false;

  async function poll(): Promise<void> {
    const checked = [...watched];
    const ids = [...new Set(checked.map(({ sessionId }) => sessionId))];
    const open = await selectOpenSessions(db, ids, clock.now()).catch(() => undefined); // unreachable: no stream ends
    for (const { sessionId, controller } of checked) {
      if (open?.has(sessionId) === false) {
        controller.abort(new ServiceError(Reason.UNAUTHENTICATED, "The session has ended."));
      }
    }
    isScheduled = false;
    pollLater();
  }

  function pollLater(): void {
    if (isScheduled || watched.size === 0) return;
    isScheduled = true;
    setTimeout(poll, POLL_INTERVAL_MS).unref();
  }

  return {
    watch(sessionId, client) {
      const controller = new AbortController();
      const entry = { sessionId, controller };
      const onClientGone = () => controller.abort(client.reason);
      if (client.aborted) onClientGone();
      else client.addEventListener("abort", onClientGone);
      watched.add(entry);
      pollLater();
      return {
        signal: controller.signal,
        end() {
          client.removeEventListener("abort", onClientGone);
          watched.delete(entry);
        },
      };
    },
  };
}
