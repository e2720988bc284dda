import { setImmediate } from "node:timers/promises";
import type { Clock } from "../platform/clock.ts";
import { type FoundSession, findOpenSessions } from "../store/sessions.ts";
import type { HotDb } from "../store/store.ts";

/** Finds sessions as they stand now. */
export type FindSession = {
  /** An open session; undefined if it has ended or, under impersonation, the administrator's own has. */
  (id: string): Promise<FoundSession | undefined>;
  /** Whether this process found it open when it last looked. */
  wasOpen(id: string): boolean;
};

/** Sessions that are remembered as having been open; the one found first is dropped. */
const REMEMBERED_SESSIONS = 10_000;

/** Reads sessions anew for every request. Requests that arrive in the same tick of the event loop share one statement. */
export function createFindSession(db: HotDb, clock: Clock): FindSession {
  const open = new Set<string>();
  const ids = new Set<string>();
  let pending: Promise<Map<string, FoundSession>> | undefined;
  const load = async () => {
    await setImmediate();
    const batch = [...ids];
    ids.clear();
    pending = undefined; // later callers get the next statement
    return findOpenSessions(db, batch, clock.now());
  };
  const find = async (id: string) => {
    ids.add(id);
    pending ??= load();
    const found = (await pending).get(id);
    if (!found) open.delete(id);
    else if (open.add(id).size > REMEMBERED_SESSIONS) open.delete(open.keys().next().value as string);
    return found;
  };
  return Object.assign(find, { wasOpen: (id: string) => open.has(id) });
}
