/**
 * What the history has to show besides everyday use: programs, incidents of these days, budgets and
 * webhooks.
 */
import { randomBytes } from "node:crypto";
import { newId } from "../../services/store/ids.ts";
import { SERVICE_DOMAIN } from "../../services/store/users.ts";
import { type Chance, CLIENTS, DAY, HOUR, MINUTE, type Person, sourceAt } from "./demo-people.ts";
import { type Composition, emailRow, eventRow, type Row } from "./demo-rows.ts";

/** Programs: the days since when, the names of their API keys, and the alias that they call. */
const PROGRAMS = [
  { name: "Support assistant", days: 60, keys: ["Production", "Staging"], alias: "support" },
  { name: "Nightly reports", days: 40, keys: ["Scheduler"], alias: "reports" },
] as const;
/** Who has a key of their own, and its name. */
const OWN_KEYS = [
  ["Ursula Lang", "Notebook"],
  ["Ann Müller", "CI"],
  ["Zoë Martin", "Prototype"],
  ["Ravi Patel", "Data pipeline"],
] as const;
/** Who has just signed in, and how many minutes ago. */
const RECENT = [
  ["Ann Müller", 2],
  ["Zoë Martin", 4],
  ["Jonas Berg", 13],
  ["Priya Nair", 31],
] as const;
const MAILBOX_ERROR = "550 mailbox unavailable";

const personCalled = ({ people }: Composition, name: string): Person =>
  people.find((person) => person.name === name) ?? (people[0] as Person);
const rowOf = ({ rows }: Composition, { id }: { id: string }): Row =>
  rows.users.find((row) => row.id === id) ?? {};
const administrator = ({ people }: Composition) => people[0] as Person;
/** Where the administrator works. */
const OFFICE = sourceAt(0, 0, CLIENTS[0]);

/** Adds an event that an administrator caused. */
function addAdminEvent(
  composition: Composition,
  event: string,
  at: Date,
  user: Pick<Person, "id" | "email"> | undefined,
  details: object = {},
): void {
  const admin = administrator(composition);
  const row = eventRow(user ?? admin, event, at, OFFICE);
  composition.rows.audit_events.push({
    ...row,
    ...{ actor_id: admin.id, user_id: user?.id ?? null, details },
  });
}

/** Service accounts and API keys, with their calls. */
export function addPrograms(composition: Composition): void {
  const { now, rows, chance, usageRow } = composition;
  for (const { name, days, keys, alias } of PROGRAMS) {
    const createdAt = new Date(now - days * DAY);
    const id = newId(createdAt);
    const email = `${id}@${SERVICE_DOMAIN}`;
    const person = { id, name, email, createdAt };
    const row = rowOf(composition, administrator(composition));
    rows.users.push({
      ...row,
      ...{ id, email, canonical_email: email, name, role: "user", is_service: true },
      ...{ password_hash: "", has_password: false, password_changed_at: createdAt },
      ...{ email_verified_at: null, terms_accepted_at: createdAt, last_login_at: null },
      ...{ created_at: createdAt, updated_at: createdAt },
    });
    addAdminEvent(composition, "admin.service_account_created", createdAt, person);
    for (const [i, keyName] of keys.entries()) {
      const key = keyRow(person, keyName, now, chance);
      rows.api_keys.push({ ...key, created_by: administrator(composition).id });
      const calls = { keyId: String(key.id), ...(i === 0 && { alias }) };
      const step = (i === 0 ? 1 : 4) * HOUR;
      for (let at = now - 5 * MINUTE; at > now - days * DAY; at -= step * (0.4 + chance.next()))
        rows.ai_usage.push(usageRow(person, new Date(at), chance, calls));
    }
  }
  for (const [name, keyName] of OWN_KEYS) addOwnKey(composition, name, keyName);
}

/** An API key of a person, with its calls. */
function addOwnKey(composition: Composition, name: string, keyName: string): void {
  const { now, rows, chance, usageRow } = composition;
  const owner = personCalled(composition, name);
  const key = keyRow(owner, keyName, now, chance);
  const createdAt = key.created_at as Date;
  rows.api_keys.push(key);
  const source = sourceAt(owner.place, owner.index, CLIENTS[3] ?? CLIENTS[0]);
  const details = { id: key.id, name: keyName };
  const created = eventRow(owner, "user.api_key_created", createdAt, source);
  rows.audit_events.push({ ...created, details });
  for (let at = now - HOUR; at > createdAt.getTime(); at -= 9 * HOUR * (0.4 + chance.next()))
    rows.ai_usage.push(usageRow(owner, new Date(at), chance, { keyId: String(key.id) }));
  if (keyName !== "Prototype") return;
  const revokedAt = new Date(now - 3 * DAY);
  Object.assign(key, { revoked_at: revokedAt, last_used_at: new Date(now - 4 * DAY) });
  const revoked = eventRow(owner, "user.api_key_revoked", revokedAt, source);
  rows.audit_events.push({ ...revoked, details });
}

/** A key that nobody has: its digest is random. */
function keyRow(
  { id, createdAt }: Pick<Person, "id" | "createdAt">,
  name: string,
  now: number,
  chance: Chance,
): Row {
  const letters = () =>
    Array.from({ length: 4 }, () => chance.of([..."abcdefghkmnpqrstuvwxyz23456789"])).join("");
  const at = new Date(Math.max(createdAt.getTime() + HOUR, now - (20 + chance.below(20)) * DAY));
  return {
    ...{ id: newId(at), user_id: id, name, hint: `${letters()}...${letters()}` },
    ...{ digest: `\\x${randomBytes(32).toString("hex")}`, models: null, requests_per_minute: null },
    ...{ created_at: at, created_by: id, expires_at: new Date(at.getTime() + 365 * DAY) },
    ...{ last_used_at: new Date(now - chance.below(90) * MINUTE), last_used_ip: "203.0.113.80" },
    revoked_at: null as Date | null,
  };
}

/**
 * Locked and suspended accounts, failed e-mails, a failing provider, and what an administrator did.
 */
export function addIncidents(composition: Composition): void {
  const { now, rows, chance, usageRow, people } = composition;
  const ago = (ms: number) => new Date(now - ms);
  const ann = personCalled(composition, "Ann Müller");
  addAdminEvent(composition, "admin.user_updated", ago(6 * MINUTE), ann, {
    ...{ fields: ["role"], role: "admin", changes: { role: { from: "user", to: "admin" } } },
  });
  rowOf(composition, ann).role = "admin";

  lock(composition, "Paul Okafor", ago(38 * MINUTE), new Date(now + 2 * HOUR));
  lock(composition, "Greta Weber", ago(3 * HOUR), new Date(now + 5 * HOUR));
  for (const [name, days] of [
    ["Lena Fischer", 7],
    ["Viktor Horvat", 19],
  ] as const) {
    const user = personCalled(composition, name);
    addAdminEvent(composition, "admin.user_suspended", ago(days * DAY), user);
    const row = rowOf(composition, user);
    row.suspended_at = ago(days * DAY);
  }
  const lucas = personCalled(composition, "Lucas Moreau");
  const source = sourceAt(lucas.place, lucas.index, CLIENTS[1]);
  const requested = eventRow(lucas, "user.deletion_requested", ago(5 * HOUR), source);
  rows.audit_events.push(requested);
  rowOf(composition, lucas).deletion_at = new Date(now + 29 * DAY);
  addAdminEvent(
    composition,
    "admin.impersonated",
    ago(2 * DAY),
    personCalled(composition, "Tom Becker"),
    {
      reason: "A question about an invoice",
    },
  );

  const invitedAt = ago(31 * HOUR);
  const invited = { id: newId(invitedAt), name: "Nina Sommer", email: "nina.sommer@example.com" };
  rows.users.push({
    ...rowOf(composition, ann),
    ...{ ...invited, canonical_email: invited.email, role: "user", has_password: false },
    ...{ mfa_secret: null, mfa_confirmed_at: null, email_verified_at: null, last_login_at: null },
    ...{ created_at: invitedAt, updated_at: invitedAt, terms_accepted_at: invitedAt },
    password_changed_at: invitedAt,
  });
  addAdminEvent(composition, "admin.user_invited", invitedAt, invited, { role: "user" });
  rows.emails.push(emailRow(invited, "invitation", invitedAt, MAILBOX_ERROR));
  const recent = people.at(-2) as Person;
  const failed = rows.emails.find((row) => row.user_id === recent.id);
  if (failed)
    Object.assign(failed, emailRow(recent, "verify-email", recent.createdAt, MAILBOX_ERROR));
  rows.emails.push(
    emailRow(
      personCalled(composition, "Ivan Petrov"),
      "password-changed",
      ago(9 * DAY),
      "452 mailbox full",
    ),
  );

  const caller = personCalled(composition, "Ravi Patel");
  for (let call = 0; call < 10; call++) {
    const facts = { provider: "mistral", outcome: call % 10 < 6 ? "overloaded" : "completed" };
    rows.ai_usage.push(usageRow(caller, ago((3 + call * 4) * MINUTE), chance, facts));
  }
  for (let call = 0; call < 24; call++) {
    const provider = ["openai", "anthropic", "google"][call % 3] as string;
    const facts = { provider, outcome: call === 7 ? "timed out" : "completed" };
    rows.ai_usage.push(usageRow(caller, ago((2 + call * 2) * MINUTE), chance, facts));
  }
  for (const [name, minutes] of RECENT) {
    const user = personCalled(composition, name);
    const at = ago(minutes * MINUTE);
    const device = CLIENTS[user.index % CLIENTS.length] ?? CLIENTS[0];
    const place = sourceAt(user.place, user.index, device);
    rows.audit_events.push(eventRow(user, "auth.login", at, place));
    rowOf(composition, user).last_login_at = at;
  }
}

/** Five wrong passwords lock an account. */
function lock(composition: Composition, name: string, at: Date, until: Date): void {
  const { rows } = composition;
  const user = personCalled(composition, name);
  const source = sourceAt(user.place + 6, 3, CLIENTS[1]); // somebody else, somewhere else
  for (let attempt = 5; attempt > 0; attempt--) {
    const tried = new Date(at.getTime() - attempt * 4_000);
    rows.audit_events.push(eventRow(user, "auth.login_failed", tried, source, "failure"));
  }
  rows.audit_events.push({ ...eventRow(user, "auth.locked", at, source, "failure"), details: {} });
  rows.attempts.push({
    ...{ kind: "password", subject: user.email, reserved: 0, failed: 5, failed_at: at },
    ...{ reserved_at: at, locked_until: until, reservations: [], consecutive: 5 },
  });
  rows.emails.push(emailRow(user, "account-locked", at));
}

/** What of a budget is used, and what it costs, in nano-units of money or in tokens. */
const amountOf = (unit: "cost" | "tokens", calls: readonly Row[]): number =>
  calls.reduce((sum, call) => {
    const tokens = Number(call.input_tokens) + Number(call.output_tokens);
    return sum + (unit === "cost" ? Number(call.cost_nanos ?? 0) : tokens);
  }, 0);

/** A round number that is a little larger. */
function roundUp(amount: number): number {
  const step = 10 ** Math.max(0, Math.floor(Math.log10(Math.max(1, amount))) - 1);
  return Math.ceil(amount / (5 * step)) * 5 * step;
}

/**
 * Budgets of all calls, of each user, of one user and of API keys, with what was used. All models
 * need prices.
 */
export function addBudgets(composition: Composition): void {
  const { now, rows, people } = composition;
  const today = new Date(now).toISOString().slice(0, 10);
  const starts = { day: today, month: `${today.slice(0, 7)}-01` };
  const since = (period: "day" | "month", calls = rows.ai_usage) =>
    calls.filter(({ created_at: at }) => (at as Date).toISOString().slice(0, 10) >= starts[period]);
  const counter = (budgetId: string, subject: string, period: "day" | "month", used: number) => ({
    ...{ budget_id: budgetId, subject, period_start: starts[period], used, reserved: 0 },
    ...{ alerted_at: null as Date | null, exceeded_at: null as Date | null },
  });
  const add = (
    scope: string,
    subject: string,
    unit: "cost" | "tokens",
    period: "day" | "month",
    limit: number,
  ): string => {
    const createdAt = new Date(now - 38 * DAY - rows.budgets.length * HOUR); // lists show the first one first
    const id = newId(createdAt);
    rows.budgets.push({
      ...{ id, scope, subject, unit, period, limit_amount: limit, alert_percent: 80 },
      created_at: createdAt,
    });
    addAdminEvent(composition, "admin.budget_set", createdAt, undefined, {
      ...{ id, scope, unit, period },
    });
    return id;
  };
  const money = (amount: number) => amount * 1_000_000_000;
  const month = since("month");

  const lastMonth = rows.ai_usage.filter((call) => Number(call.created_at) > now - 30 * DAY);
  const enough = (amount: number) => Math.max(money(5), roundUp(amount));
  const ofAll = add("deployment", "", "cost", "month", enough(amountOf("cost", lastMonth) * 1.5));
  rows.budget_counters.push(counter(ofAll, "", "month", amountOf("cost", month)));

  const ofUsers = add("role", "user", "cost", "month", money(25));
  const own = Map.groupBy(month, (call) => String(call.user_id));
  for (const [userId, calls] of own)
    rows.budget_counters.push(counter(ofUsers, userId, "month", amountOf("cost", calls)));

  const [heavy] = people
    .map(({ id }) => ({ id, used: amountOf("cost", own.get(id) ?? []) }))
    .sort((a, b) => b.used - a.used);
  if (heavy) {
    const ofOne = add("user", heavy.id, "cost", "month", enough(heavy.used / 0.85));
    rows.budget_counters.push(counter(ofOne, heavy.id, "month", heavy.used));
  }

  const keyCalled = (name: string) => rows.api_keys.find((key) => key.name === name) as Row;
  const callsWith = (key: Row) => rows.ai_usage.filter((call) => call.api_key_id === key.id);
  const production = keyCalled("Production");
  const used = amountOf("cost", since("month", callsWith(production)));
  const ofKey = add("key", String(production.id), "cost", "month", enough(used / 0.6));
  rows.budget_counters.push(counter(ofKey, String(production.id), "month", used));

  const staging = keyCalled("Staging");
  const ofStaging = add("key", String(staging.id), "tokens", "day", 40_000);
  const exceededAt = new Date(now - 9 * MINUTE);
  rows.budget_counters.push({
    ...counter(ofStaging, String(staging.id), "day", 39_870),
    ...{ alerted_at: exceededAt, exceeded_at: exceededAt },
  });
  const owner = { id: String(staging.user_id), email: "" };
  const details = {
    ...{ id: ofStaging, scope: "key", unit: "tokens", period: "day", limit: "40000" },
  };
  const program = { ...OFFICE, client: ["Program", "openai-python/2.8.0"] as const };
  const exceeded = eventRow(owner, "user.budget_exceeded", exceededAt, program);
  rows.audit_events.push({ ...exceeded, details });
}

/** A webhook that works, and one that was turned off because its endpoint failed. */
export function addWebhooks(composition: Composition, url: string): void {
  const { now, rows, webhookSecretOf } = composition;
  const add = (address: string, description: string, events: string[], days: number) => {
    const createdAt = new Date(now - days * DAY);
    const id = newId(createdAt);
    const row = {
      ...{ id, url: address, description, events, secret: webhookSecretOf(id), position: 0 },
      ...{ failing_since: null as Date | null, disabled_at: null as Date | null },
      ...{ disabled_reason: null as string | null, created_at: createdAt },
    };
    rows.webhooks.push(row);
    const { host } = new URL(address);
    addAdminEvent(composition, "admin.webhook_changed", createdAt, undefined, { id, host });
    return row;
  };
  const events = ["admin.*", "auth.locked", "user.deletion_requested", "user.budget_exceeded"];
  add(url, "Alerts", events, 0.2);
  const crm = add("https://crm.example.com/hooks/accounts", "CRM", ["auth.register"], 45);
  const failingSince = now - 6 * DAY;
  Object.assign(crm, {
    ...{ failing_since: new Date(failingSince), disabled_at: new Date(now - DAY) },
    disabled_reason: "failing",
  });
  const registered = rows.audit_events.filter(({ event, created_at: at }) => {
    return event === "auth.register" && Number(at) > now - 20 * DAY && Number(at) < now - DAY;
  });
  for (const { id: eventId, created_at: at } of registered) {
    const queuedAt = new Date(Number(at) + 1_000);
    const hasFailed = Number(at) > failingSince;
    rows.webhook_deliveries.push({
      ...{ id: newId(queuedAt), webhook_id: crm.id, event_id: eventId, event: "auth.register" },
      ...{ status: hasFailed ? "failed" : "delivered", attempts: hasFailed ? 9 : 1 },
      ...{ queued_at: queuedAt, next_attempt_at: null, response_status: hasFailed ? 503 : 204 },
      ...{ last_error: hasFailed ? "status 503" : null, created_at: queuedAt },
      delivered_at: hasFailed ? null : new Date(Number(queuedAt) + 400),
    });
  }
}
