import { setImmediate } from "node:timers/promises";
import type { Clock } from "../platform/clock.ts";
import type { Statement, Store } from "../store/store.ts";
import type { Role } from "../store/user.ts";

/** An open session and its user; times as text. */
export type FoundSession = {
  session_id: string;
  generation: number;
  successor_used: boolean;
  session_created_at: string;
  last_active_at: string;
  actor_id: string | null;
  id: string;
  email: string;
  name: string;
  bio: string | null;
  role: Role;
  email_verified: boolean;
  mfa_enabled: boolean;
  password_changed_at: string;
  created_at: string;
  updated_at: string;
};

/** Finds sessions as they stand now. */
export type FindSession = {
  /** An open session; undefined when it has ended or, under impersonation, the administrator's own has. */
  (id: string): Promise<FoundSession | undefined>;
  /** Whether this process found it open when it last looked. */
  wasOpen(id: string): boolean;
};

/** Sessions that are remembered as having been open; the one found first goes. */
const REMEMBERED_SESSIONS = 10_000;

/**
 * Whether session `s` is open and, under impersonation, the administrator's own too, which expires no sooner; takes the
 * present time as `$2`.
 */
export const IS_OPEN = `s.revoked_at is null and s.expires_at > $2
       and (s.actor_session_id is null or exists (
         select from sessions a where a.id = s.actor_session_id and a.revoked_at is null))`;

const FIND: Statement = {
  name: "find_open_sessions",
  text: `select s.id as session_id, s.generation, s.acknowledged as successor_used, s.created_at as session_created_at, s.last_active_at, s.actor_id,
       u.id, u.email, u.name, u.bio, u.role, u.email_verified_at is not null as email_verified,
       u.mfa_secret is not null as mfa_enabled, u.password_changed_at, u.created_at, u.updated_at
     from sessions s join users u on u.id = s.user_id
     where s.id = any((select $1::uuid[])::uuid[]) and ${IS_OPEN}`, // the sub-select hides how many ids there are: PostgreSQL would plan anew
};

/** Sessions are read anew for every request; requests that arrive in the same turn of the event loop share the statement. */
export function createFindSession({ query }: Pick<Store, "query">, clock: Clock): FindSession {
  const open = new Set<string>();
  const asked = new Set<string>();
  let looking: Promise<Map<string, FoundSession>> | undefined;
  const look = async () => {
    await setImmediate();
    const ids = [...asked];
    asked.clear();
    looking = undefined; // whoever asks from here on is answered by the next statement
    const rows = await query<FoundSession>(FIND, [ids, clock.now()]);
    return new Map(rows.map((row) => [row.session_id, row]));
  };
  const find = async (id: string) => {
    asked.add(id);
    looking ??= look();
    const found = (await looking).get(id);
    if (!found) open.delete(id);
    else if (open.add(id).size > REMEMBERED_SESSIONS) open.delete(open.keys().next().value as string);
    return found;
  };
  return Object.assign(find, { wasOpen: (id: string) => open.has(id) });
}
