import { setImmediate } from "node:timers/promises";
import type { Clock } from "../platform/process.ts";
import { type FoundSession, findOpenSessions } from "../store/sessions.ts";
import type { HotDb } from "../store/store.ts";

/** Finds an open session; undefined if it has ended or, under impersonation, the administrator's own has. */
export type FindSession = (id: string) => Promise<FoundSession | undefined>;

/** Reads sessions anew for every request. Requests that arrive in the same tick of the event loop share one statement. */
export function createFindSession(db: HotDb, clock: Clock): FindSession {
  const ids = new Set<string>();
  let pending: Promise<Map<string, FoundSession>> | undefined;
  const load = async () => {
    await setImmediate();
    const batch = [...ids];
    ids.clear();
    pending = undefined; // later callers get the next statement
    return findOpenSessions(db, batch, clock.now());
  };
  return async (id) => {
    ids.add(id);
    pending ??= load();
    return (await pending).get(id);
  };
}
