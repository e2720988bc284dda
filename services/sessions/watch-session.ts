import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Clock } from "../platform/clock.ts";
import { Refusal } from "../platform/errors.ts";
import type { Statement, Store } from "../store/store.ts";
import { IS_OPEN } from "./find-session.ts";

/** How often the sessions behind open streams are checked, in ms: a revocation ends a stream within about this time. */
const LOOK_MS = 750;

/** A long call that may go on only while its session is open. */
export type Stay = {
  /** Fires when the client goes away, or with a refusal when the session has ended. */
  signal: AbortSignal;
  /** Stops watching. */
  end(): void;
};

/** Ends what is under way when its session ends, on whichever process that happened. */
export type SessionWatch = { follow(sessionId: string, client: AbortSignal): Stay };

const OPEN_AMONG: Statement = {
  name: "open_sessions_among",
  text: `select s.id from sessions s where s.id = any($1::uuid[]) and ${IS_OPEN}`,
};

/** One query per round checks all sessions together; without open streams there is none. */
export function watchSessions({ query }: Pick<Store, "query">, clock: Clock): SessionWatch {
  const stays = new Set<{ sessionId: string; controller: AbortController }>();
  let isWaiting = false;

  async function look(): Promise<void> {
    const looked = [...stays];
    try {
      const open = await openAmong([...new Set(looked.map(({ sessionId }) => sessionId))]);
      for (const { sessionId, controller } of looked) {
        if (!open.has(sessionId)) controller.abort(new Refusal(Reason.UNAUTHENTICATED, "The session has ended."));
      }
    } catch {
      // the database is away: nothing is known, so nothing ends
    }
    isWaiting = false;
    lookLater();
  }

  function lookLater(): void {
    if (isWaiting || stays.size === 0) return;
    isWaiting = true;
    setTimeout(look, LOOK_MS).unref();
  }

  async function openAmong(ids: string[]): Promise<Set<string>> {
    const rows = await query<{ id: string }>(OPEN_AMONG, [ids, clock.now()]);
    return new Set(rows.map(({ id }) => id));
  }

  return {
    follow(sessionId, client) {
      const controller = new AbortController();
      const stay = { sessionId, controller };
      const leave = () => controller.abort(client.reason);
      if (client.aborted) leave();
      else client.addEventListener("abort", leave);
      stays.add(stay);
      lookLater();
      return {
        signal: controller.signal,
        end() {
          client.removeEventListener("abort", leave);
          stays.delete(stay);
        },
      };
    },
  };
}
