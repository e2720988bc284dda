import { sendHttp } from "../../support/http/client.ts";
import { tally } from "../../support/tally.ts";
import { type Entry, type History, type Operation, PASSWORDS } from "./history.ts";

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

/** One address: what its client has seen, and what the product keeps of it. */
type Evidence = { own: Entry[]; account: Account; isMailed: boolean; passwords: string[] };

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
    const passwords = await working(url, email);
    const evidence = { own, account, isMailed: mailed.has(email), passwords };
    for (const complaint of complaintsAbout(evidence))
      found.push(`${email}: ${complaint}: ${JSON.stringify({ own, account })}`);
  }
  found.push(...(await sessionsThatOutlivedTheirEnd(ended, url)));
  for (const { status, ...entry } of entries)
    if (status >= 500 && status !== 503) found.push(`${status}: ${JSON.stringify(entry)}`);
  return found;
}

/** What contradicts the history of one account. */
function complaintsAbout({ own, account, isMailed, passwords }: Evidence): string[] {
  const complaints = [...miscountedEvents(own, account), ...reusedTokens(own)];
  if (own.some(isOk("verify")) && !account.verified) complaints.push("verified, and is not");
  if (!possible(own, "rename", "Ann").includes(account.name))
    complaints.push("has a name that it should not have");
  if (own.some(isOk("register")) && !isMailed) complaints.push("has got no e-mail");
  if (own.some(isOk("use after logout"))) complaints.push("used a session after its logout");
  const expected = own.some(isOk("reset"))
    ? PASSWORDS.slice(2)
    : possible(own, "reset", ...possible(own, "change password", PASSWORDS[0]));
  if (passwords.length !== 1 || !expected.includes(passwords[0] as string))
    complaints.push(`has the passwords ${passwords}, not one of ${expected}`);
  return complaints;
}

/** Operations whose audit events are fewer than their successes, or more than their attempts. */
function miscountedEvents(own: Entry[], account: Account): string[] {
  return Object.entries(EVENTS).flatMap(([operation, event]) => {
    const entries = own.filter((entry) => entry.operation === operation);
    const { ok = 0, unknown = 0 } = tally(entries, (entry) => entry.outcome);
    const recorded = account.events?.[event] ?? 0;
    const hasOneToken = operation === "verify" || operation === "reset";
    const most = hasOneToken ? 1 : ok + unknown;
    if (recorded >= ok && recorded <= most) return [];
    return [`${operation}: ${ok} ok, ${unknown} unknown, ${recorded} recorded`];
  });
}

function reusedTokens(own: Entry[]): string[] {
  const withToken = own.filter(({ value, operation }) => value && /verify|reset/.test(operation));
  return [...Map.groupBy(withToken, ({ value }) => value)]
    .filter(([, uses]) => uses.filter(({ outcome }) => outcome === "ok").length > 1)
    .map(([token]) => `used ${token} twice`);
}

async function sessionsThatOutlivedTheirEnd(ended: History["ended"], url: string) {
  const found: string[] = [];
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
