import { type Entry, type History, type Operation, PASSWORDS } from "./history.ts";
import { sendHttp } from "./http-client.ts";
import { tally } from "./until.ts";

/** The audit event of each operation that has one. */
const EVENTS: Partial<Record<Operation, string>> = {
  register: "auth.register",
  verify: "auth.email_verified",
  login: "auth.login",
  rename: "user.profile_updated",
  "change password": "user.password_changed",
  logout: "auth.logout",
  reset: "auth.password_reset",
};

type Sql = <T>(text: string, values?: unknown[]) => Promise<T[]>;
type Account = {
  id: string;
  name: string;
  verified: boolean;
  events: Record<string, number> | null;
};

/**
 * Compares the responses of clients with database, mail and audit log.
 * @param mailed addresses that received an e-mail
 * @returns contradictions
 */
export async function contradictions(
  { entries, ended }: History,
  url: string,
  sql: Sql,
  mailed: Set<string>,
): Promise<string[]> {
  const found: string[] = [];
  const byEmail = Map.groupBy(entries, ({ email }) => email);
  for (const [email, own] of byEmail) {
    const [account] = await sql<Account>(
      `select id, name, email_verified_at is not null as verified,
         (select json_object_agg(event, n) from
           (select event, count(*)::int as n from audit_events where user_id = users.id and outcome = 'success' group by event) e) as events
       from users where email = $1`,
      [email],
    );
    if (!account) {
      if (own.some(isOk("register"))) found.push(`${email}: registered, and there is no account`);
      continue;
    }
    const complain = (what: string) =>
      found.push(`${email}: ${what}: ${JSON.stringify({ own, account })}`);
    for (const [operation, event] of Object.entries(EVENTS)) {
      const outcomes = tally(
        own.filter((entry) => entry.operation === operation),
        (entry) => entry.outcome,
      );
      const [ok, unknown, recorded] = [
        outcomes.ok ?? 0,
        outcomes.unknown ?? 0,
        account.events?.[event] ?? 0,
      ];
      const most = operation === "verify" || operation === "reset" ? 1 : ok + unknown; // each account gets one such token
      if (recorded < ok || recorded > most)
        complain(`${operation}: ${ok} ok, ${unknown} unknown, ${recorded} recorded`);
    }
    if (own.some(isOk("verify")) && !account.verified) complain("verified, and is not");
    if (!possible(own, "rename", "Ann").includes(account.name))
      complain("has a name that it should not have");
    if (own.some(isOk("register")) && !mailed.has(email)) complain("has got no e-mail");
    for (const [token, uses] of Map.groupBy(
      own.filter(({ value, operation }) => value && /verify|reset/.test(operation)),
      ({ value }) => value,
    ))
      if (uses.filter(({ outcome }) => outcome === "ok").length > 1)
        complain(`used ${token} twice`);
    if (own.some((entry) => isOk("use after logout")(entry)))
      complain("used a session after its logout");
    const passwords = await working(url, email);
    const expected = own.some(isOk("reset"))
      ? PASSWORDS.slice(2)
      : possible(own, "reset", ...possible(own, "change password", PASSWORDS[0]));
    if (passwords.length !== 1 || !expected.includes(passwords[0] as string))
      complain(`has the passwords ${passwords}, not one of ${expected}`);
  }
  for (const { accessToken, refreshToken } of ended) {
    const profile = await sendHttp(url, "GET", "/user/profile", undefined, {
      authorization: `Bearer ${accessToken}`,
    });
    const refresh = await sendHttp(url, "POST", "/auth/refresh", undefined, {
      cookie: `refreshToken=${refreshToken}`,
    });
    if (profile.status !== 401 || refresh.status !== 401)
      found.push(`a revoked session works: ${profile.status} ${refresh.status}`);
  }
  for (const { status, ...entry } of entries)
    if (status >= 500 && status !== 503) found.push(`${status}: ${JSON.stringify(entry)}`);
  return found;
}

const isOk = (operation: Operation) => (entry: Entry) =>
  entry.operation === operation && entry.outcome === "ok";

/**
 * The values that an operation may have stored: the last acknowledged one, or a later one without a
 * response.
 */
function possible(own: Entry[], operation: Operation, ...before: string[]): string[] {
  let values = before;
  for (const entry of own.filter(
    (each) => each.operation === operation && each.outcome !== "failed",
  )) {
    const value = operation === "reset" ? PASSWORDS[2] : (entry.value as string);
    values = entry.outcome === "ok" ? [value] : [...values, value];
  }
  return values;
}

/** The passwords that sign in. */
async function working(url: string, email: string): Promise<string[]> {
  const tries = PASSWORDS.map(
    async (password) =>
      (await sendHttp(url, "POST", "/auth/login", { email, password })).status === 200,
  );
  const works = await Promise.all(tries);
  return PASSWORDS.filter((_, i) => works[i]);
}
