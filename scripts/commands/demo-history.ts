import { randomBytes } from "node:crypto";
import { isEmbedding, readCatalogue } from "../../services/ai/catalogue.ts";
import { createCipher } from "../../services/crypto/cipher.ts";
import { createPasswords } from "../../services/crypto/passwords.ts";
import { totpContext } from "../../services/mfa/second-factor.ts";
import { requireConfig } from "../../services/platform/config/config.ts";
import { createLog } from "../../services/platform/telemetry/log.ts";
import { newId } from "../../services/store/ids.ts";
import { openStore } from "../../services/store/open-store.ts";
import { readSecretKeys } from "../../services/store/secret-keys.ts";
import { SERVICE_DOMAIN, User } from "../../services/store/users.ts";

/** The people of the demo in addition to its two accounts. */
const NAMES =
  `Ann Müller,Zoë Martin,Paul Okafor,Mia Tanaka,Jonas Berg,Lena Fischer,Ravi Patel,Sofia Rossi,Emil Novak,
Hana Suzuki,Kofi Mensah,Clara Dubois,Diego Alvarez,Nora Lindqvist,Omar Haddad,Priya Nair,Tom Becker,Julia Kowalska,
Ivan Petrov,Leïla Benali,Marco Bianchi,Astrid Holm,Samuel Osei,Yuki Mori,Ella Virtanen,Noah Schneider,Amina Diallo,
Lucas Moreau,Greta Weber,Finn O'Connor,Rosa Jiménez,Viktor Horvat,Ines Costa,Adam Nowak,Maja Jensen,Elias Vogel,
Chloé Laurent,Arjun Mehta`
    .split(",")
    .map((name) => name.trim());
const CLIENTS = [
  [
    "Chrome on Linux",
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36",
  ],
  [
    "Firefox on Windows",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:145.0) Gecko/20100101 Firefox/145.0",
  ],
  [
    "Safari on iOS",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 19_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.1 Mobile/15E148 Safari/604.1",
  ],
  [
    "Chrome on macOS",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36",
  ],
] as const;
const PLACES = ["Berlin, DE", "Lagos, NG", "Kyoto, JP", "Lisbon, PT", "Oslo, NO", "Lyon, FR"];
/** Programs, each with the names of its API keys. */
const PROGRAMS = [
  { name: "Support assistant", keys: ["Production", "Staging"] },
  { name: "Nightly reports", keys: ["Scheduler"] },
] as const;
/** People with their own key, by the key's name. */
const OWN_KEYS = ["Notebook", "CI", "Prototype"];
/** Who is suspended, and who is locked for the rest of the day, by their places among the people. */
const [SUSPENDED, LOCKED] = [19, 27];
/** Every third one of the others has a second factor. */
const hasFactor = (index: number) => index > 1 && index % 3 === 0;
const DAYS = 90;
const [MINUTE, HOUR, DAY] = [60_000, 3_600_000, 86_400_000];

type Account = { email: string; name: string; role: "admin" | "user" };
type Person = Account & { id: string; createdAt: Date; index: number };
type Row = Record<string, unknown>;

/** The rows of the history by their tables. */
type History = Record<
  "users" | "attempts" | "api_keys" | "audit_events" | "emails" | "sessions" | "ai_usage",
  Row[]
>;

/**
 * Fills an empty database with accounts, 40 people in all and two programs, and what they did in the last 90 days.
 * Does nothing if there are users.
 * @param password of the given accounts; nobody has those of the others
 */
export async function writeHistory(accounts: Account[], password: string): Promise<void> {
  const config = requireConfig(process.env, "command");
  const store = await openStore(config.database, createLog("warn"));
  try {
    await store.migrate();
    const em = store.fork();
    if ((await em.count(User)) > 0) return;
    const passwords = await createPasswords();
    const cipher = createCipher(...readSecretKeys(config));
    const history = compose(accounts, {
      own: await passwords.hash(password),
      others: await passwords.hash(crypto.randomUUID()),
      secretOf: (id) => cipher.encrypt(randomBytes(20).toString("hex"), totpContext(id)),
    });
    await em.transactional(async () => {
      await em.execute(
        `select audit_add_partition(month::date) from generate_series(
           date_trunc('month', now() - interval '${DAYS + 1} days'), date_trunc('month', now()), '1 month') as month`,
      );
      for (const [table, rows] of Object.entries(history)) await insert(em, table, rows);
      await em.execute(
        "insert into suspended_users select id from users where suspended_at is not null",
      );
      await em.execute("insert into audit_unsealed (event_id) select id from audit_events");
    });
  } finally {
    await store.close();
  }
}

/** Columns that are not given keep their defaults. */
async function insert(
  em: { execute(sql: string, values: Row): Promise<unknown> },
  table: string,
  rows: Row[],
) {
  const names = Object.keys(rows[0] ?? {});
  const columns = names.map((name) => `"${name}"`).join(", ");
  await em.execute(
    `insert into ${table} (${columns})
     select ${columns} from jsonb_populate_recordset(null::${table}, :rows::jsonb)`,
    { rows: JSON.stringify(rows) },
  );
}

/** The same numbers at each start, so that two demos look alike. */
function createChance() {
  let state = 20_261_128;
  const next = () => {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296;
    return state / 4_294_967_296;
  };
  return {
    next,
    below: (limit: number) => Math.floor(next() * limit),
    of: <T>(items: readonly T[]): T => items[Math.floor(next() * items.length)] as T,
  };
}

/** Password hashes of the given accounts and of the others, and the second factor of a user. */
type Secrets = { own: string; others: string; secretOf: (userId: string) => string };

function compose(accounts: Account[], secrets: Secrets): History {
  const chance = createChance();
  const now = Date.now();
  const people = peopleOf(accounts, now);
  const rows: History = {
    ...{ users: [], attempts: [], api_keys: [] },
    ...{ audit_events: [], emails: [], sessions: [], ai_usage: [] },
  };
  const lastLogins = new Map<string, Date>();
  for (let day = DAYS - 1; day >= 0; day--) {
    for (const person of people)
      liveDay(person, now - day * DAY, { now, rows, chance, lastLogins });
  }
  for (const person of people) {
    rows.users.push(userRow(person, secrets, lastLogins.get(person.id) ?? null));
  }
  rows.api_keys.push(
    ...OWN_KEYS.map((name, i) => keyRow(people[i + 1] as Person, name, now, chance)),
  );
  addPrograms(people[0] as Person, now, rows, chance);
  addIncidents(people, now, rows);
  rows.audit_events.sort((a, b) => (String(a.id) < String(b.id) ? -1 : 1));
  return rows;
}

function peopleOf(accounts: Account[], now: number): Person[] {
  const others = NAMES.map((name) => {
    const plain = name.normalize("NFD").replace(/[^a-z ]/gi, "");
    const email = `${plain.toLowerCase().replaceAll(" ", ".")}@example.com`;
    return { name, email, role: "user" } as const;
  });
  return [...accounts, ...others].map((account, index) => {
    const age = index < accounts.length ? DAYS : Math.max(0.2, DAYS - index * 2.3);
    const createdAt = new Date(now - age * DAY);
    return { ...account, index, createdAt, id: newId(createdAt) };
  });
}

type Life = {
  now: number;
  rows: History;
  chance: ReturnType<typeof createChance>;
  lastLogins: Map<string, Date>;
};

/** What a person did on the 24 hours before a time. Weekends are quieter. */
function liveDay(person: Person, end: number, life: Life): void {
  const { rows, chance, lastLogins, now } = life;
  const at = (minutes: number) => new Date(end - DAY + (6 * 60 + minutes) * MINUTE);
  const isWeekend = [0, 6].includes(new Date(end).getUTCDay());
  const client = CLIENTS[(person.index + chance.below(2)) % CLIENTS.length] ?? CLIENTS[0];
  const source = { client, ip: `203.0.113.${10 + person.index}` };
  const joined = person.createdAt.getTime();
  if (joined <= end && joined > end - DAY) {
    rows.audit_events.push(eventRow(person, "auth.register", person.createdAt, source));
    rows.emails.push(emailRow(person, "verify-email", person.createdAt, chance.below(25) === 0));
  }
  if (joined > end - DAY || chance.next() > (isWeekend ? 0.2 : 0.55)) return;
  const minute = chance.below(12 * 60);
  if (at(minute).getTime() > now) return;
  if (chance.below(14) === 0)
    rows.audit_events.push(eventRow(person, "auth.login_failed", at(minute), source, "failure"));
  const signedIn = at(minute + 1);
  rows.audit_events.push(eventRow(person, "auth.login", signedIn, source));
  lastLogins.set(person.id, signedIn);
  if (now - signedIn.getTime() < 7 * DAY) rows.sessions.push(sessionRow(person, signedIn, source));
  if (chance.below(40) === 0)
    rows.audit_events.push(eventRow(person, "user.profile_updated", at(minute + 5), source));
  if (chance.below(120) === 0) {
    rows.audit_events.push(eventRow(person, "user.password_changed", at(minute + 6), source));
    rows.emails.push(emailRow(person, "password-changed", at(minute + 6), false));
  }
  for (let call = chance.below(7); call > 0; call--) {
    const calledAt = at(minute + 3 + call * 4);
    if (calledAt.getTime() < now) rows.ai_usage.push(usageRow(person, calledAt, chance));
  }
}

const providers = readCatalogue("native").providers.map(({ id, models }) => ({
  id,
  models: models.filter((model) => !isEmbedding(model)),
}));

function usageRow(person: Person, at: Date, chance: Life["chance"]): Row {
  const provider = chance.next() < 0.5 ? providers[0] : chance.of(providers);
  const model = chance.next() < 0.6 ? provider?.models[0] : chance.of(provider?.models ?? []);
  const failed = chance.below(40) === 0;
  const latency = 900 + chance.below(9_000);
  return {
    id: newId(at),
    user_id: person.id,
    provider: provider?.id,
    model: model?.name,
    outcome: failed ? "overloaded" : "completed",
    input_tokens: 40 + chance.below(1_800),
    output_tokens: failed ? 0 : 60 + chance.below(900),
    estimated: failed,
    latency_ms: latency,
    first_chunk_ms: failed ? null : Math.round(latency / 5),
    created_at: at,
  };
}

/** Service accounts, with their keys and calls. */
function addPrograms(admin: Person, now: number, rows: History, chance: Life["chance"]): void {
  for (const [i, { name, keys }] of PROGRAMS.entries()) {
    const createdAt = new Date(now - (60 - i * 20) * DAY);
    const id = newId(createdAt);
    const email = `${id}@${SERVICE_DOMAIN}`;
    rows.users.push({
      ...{ id, email, canonical_email: email, name, role: "user", is_service: true },
      ...{
        password_hash: "",
        has_password: false,
        password_changed_at: createdAt,
        was_verified: false,
      },
      ...{
        second_factor: false,
        terms_accepted_at: createdAt,
        created_at: createdAt,
        updated_at: createdAt,
      },
    });
    const program = { id, name, email, role: "user", createdAt, index: 50 + i } as const;
    const source = { client: CLIENTS[0], ip: "203.0.113.10" };
    const created = eventRow(program, "admin.service_account_created", createdAt, source);
    rows.audit_events.push({ ...created, actor_id: admin.id });
    for (const key of keys)
      rows.api_keys.push({ ...keyRow(program, key, now, chance), created_by: admin.id });
    for (let hour = 1; hour < 30 * 24; hour += 1 + chance.below(5))
      rows.ai_usage.push(usageRow(program, new Date(now - hour * HOUR), chance));
  }
  rows.audit_events.sort((a, b) => (String(a.id) < String(b.id) ? -1 : 1));
}

/** One person is locked since yesterday, and one is suspended since a week ago. */
function addIncidents(people: Person[], now: number, rows: History): void {
  const [admin, locked, suspended] = [0, LOCKED, SUSPENDED].map((place) => people[place]) as [
    Person,
    Person,
    Person,
  ];
  const lockedAt = new Date(now - 20 * HOUR);
  const source = { client: CLIENTS[1], ip: "198.51.100.23" };
  for (let attempt = 5; attempt > 0; attempt--) {
    const at = new Date(lockedAt.getTime() - attempt * 4_000);
    rows.audit_events.push(eventRow(locked, "auth.login_failed", at, source, "failure"));
  }
  rows.audit_events.push(eventRow(locked, "auth.locked", lockedAt, source, "failure"));
  rows.attempts.push({
    ...{ kind: "password", subject: locked.email, reserved: 0, failed: 5, failed_at: lockedAt },
    ...{
      reserved_at: lockedAt,
      locked_until: new Date(now + DAY),
      reservations: [],
      consecutive: 5,
    },
  });
  const suspendedAt = new Date(now - 7 * DAY);
  const byAdmin = { client: CLIENTS[0], ip: "203.0.113.10" };
  const event = eventRow(suspended, "admin.user_suspended", suspendedAt, byAdmin);
  rows.audit_events.push({ ...event, actor_id: admin.id });
  rows.audit_events.sort((a, b) => (String(a.id) < String(b.id) ? -1 : 1));
  const row = rows.users.find(({ id }) => id === suspended.id);
  Object.assign(row ?? {}, { suspended_at: suspendedAt });
}

/** A key that nobody has: its digest is random. */
function keyRow({ id, createdAt }: Person, name: string, now: number, chance: Life["chance"]): Row {
  const letters = () =>
    Array.from({ length: 4 }, () => chance.of([..."abcdefghkmnpqrstuvwxyz23456789"]));
  const at = new Date(Math.max(createdAt.getTime(), now - (40 + chance.below(20)) * DAY));
  return {
    ...{ id: newId(at), user_id: id, name, hint: `${letters().join("")}...${letters().join("")}` },
    ...{ digest: `\\x${randomBytes(32).toString("hex")}`, models: null, requests_per_minute: null },
    ...{ created_at: at, created_by: id, expires_at: new Date(at.getTime() + 365 * DAY) },
    ...{ last_used_at: new Date(now - chance.below(90) * MINUTE), last_used_ip: "203.0.113.80" },
  };
}

type Source = { client: readonly [device: string, agent: string]; ip: string };

function eventRow(
  { id, email }: Person,
  event: string,
  at: Date,
  { client, ip }: Source,
  outcome = "success",
): Row {
  return {
    ...{ id: newId(at), event, outcome, user_id: id, actor_id: outcome === "success" ? id : null },
    ...{ ip, user_agent: client[1], request_id: crypto.randomUUID(), created_at: at },
    details: outcome === "failure" ? { email, reason: "password" } : {},
  };
}

const emailRow = (
  { id, email, name }: Person,
  template: string,
  at: Date,
  failed: boolean,
): Row => ({
  ...{ id: newId(at), user_id: id, to: email, template },
  facts:
    template === "verify-email"
      ? { name, lifetime: "PT1440M" }
      : { name, at, client: "Chrome on Linux" },
  ...{ status: failed ? "failed" : "sent", attempts: 1, created_at: at },
  last_error: failed ? "550 mailbox unavailable" : null,
  sent_at: failed ? null : new Date(at.getTime() + 1_500),
});

const sessionRow = ({ id, index }: Person, at: Date, { client, ip }: Source): Row => ({
  ...{ id: newId(at), user_id: id, generation: 0, acknowledged: true, rotated_at: at },
  ...{ device: client[0], ip, location: PLACES[index % PLACES.length], created_at: at },
  last_active_at: new Date(Math.min(Date.now(), at.getTime() + 45 * MINUTE)),
  expires_at: new Date(at.getTime() + 7 * DAY),
  ends_at: new Date(at.getTime() + 30 * DAY),
});

function userRow(person: Person, { own, others, secretOf }: Secrets, lastLogin: Date | null): Row {
  const { id, email, name, role, createdAt, index } = person;
  const isNew = index > NAMES.length - 2;
  return {
    ...{ id, email, canonical_email: email, name, role },
    password_hash: index < 2 ? own : others,
    ...{ is_service: false, has_password: true, was_verified: false, second_factor: false },
    mfa_secret: hasFactor(index) ? secretOf(id) : null,
    mfa_confirmed_at: hasFactor(index) ? createdAt : null,
    suspended_at: null,
    password_changed_at: index < 2 ? new Date() : createdAt,
    email_verified_at: isNew ? null : createdAt,
    ...{ terms_accepted_at: createdAt, created_at: createdAt, updated_at: createdAt },
    last_login_at: lastLogin,
  };
}
