import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Clock } from "../platform/clock.ts";
import { ServiceError } from "../platform/errors.ts";
import type { Statement, Store } from "../store/store.ts";
import { IS_OPEN } from "./find-session.ts";

/** How often the sessions behind open streams are checked, in ms: a revocation ends a stream within about this time. */
const POLL_INTERVAL_MS = 750;

/** A long call that may go on only while its session is open. */
export type SessionSubscription = {
  /** Fires when the client goes away, or with a refusal when the session has ended. */
  signal: AbortSignal;
  /** Stops watching. */
  end(): void;
};

/** Ends what is under way when its session ends, on whichever process that happened. */
export type SessionWatcher = { watch(sessionId: string, client: AbortSignal): SessionSubscription };

const OPEN_AMONG: Statement = {
  name: "open_sessions_among",
  text: `select s.id from sessions s where s.id = any($1::uuid[]) and ${IS_OPEN}`,
};

/** One query per round checks all sessions together; without open streams there is none. */
export function createSessionWatcher({ query }: Pick<Store, "query">, clock: Clock): SessionWatcher {
  const subscriptions = new Set<{ sessionId: string; controller: AbortController }>();
  let isWaiting = false;

  async function poll(): Promise<void> {
    const looked = [...subscriptions];
    try {
      const open = await openAmong([...new Set(looked.map(({ sessionId }) => sessionId))]);
      for (const { sessionId, controller } of looked) {
        if (!open.has(sessionId)) controller.abort(new ServiceError(Reason.UNAUTHENTICATED, "The session has ended."));
      }
    } catch {
      // the database is away: nothing is known, so nothing ends
    }
    isWaiting = false;
    pollLater();
  }

  function pollLater(): void {
    if (isWaiting || subscriptions.size === 0) return;
    isWaiting = true;
    setTimeout(poll, POLL_INTERVAL_MS).unref();
  }

  async function openAmong(ids: string[]): Promise<Set<string>> {
    const rows = await query<{ id: string }>(OPEN_AMONG, [ids, clock.now()]);
    return new Set(rows.map(({ id }) => id));
  }

  return {
    watch(sessionId, client) {
      const controller = new AbortController();
      const subscription = { sessionId, controller };
      const leave = () => controller.abort(client.reason);
      if (client.aborted) leave();
      else client.addEventListener("abort", leave);
      subscriptions.add(subscription);
      pollLater();
      return {
        signal: controller.signal,
        end() {
          client.removeEventListener("abort", leave);
          subscriptions.delete(subscription);
        },
      };
    },
  };
}
