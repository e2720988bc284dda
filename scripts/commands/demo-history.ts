import { randomBytes } from "node:crypto";
import { createCipher } from "../../services/crypto/cipher.ts";
import { createPasswords } from "../../services/crypto/passwords.ts";
import { totpContext } from "../../services/mfa/second-factor.ts";
import { requireConfig } from "../../services/platform/config/config.ts";
import { createLog } from "../../services/platform/telemetry/log.ts";
import { newId } from "../../services/store/ids.ts";
import { openStore } from "../../services/store/open-store.ts";
import { readSecretKeys } from "../../services/store/secret-keys.ts";
import { User } from "../../services/store/users.ts";
import { secretContext } from "../../services/webhooks/deliver.ts";
import { addBudgets, addIncidents, addPrograms, addWebhooks } from "./demo-incidents.ts";
import {
  type Account,
  CLIENTS,
  createChance,
  DAY,
  DAYS,
  HOUR,
  isWeekend,
  MINUTE,
  NEWEST,
  type Person,
  peopleOf,
  type Source,
  sourceAt,
} from "./demo-people.ts";
import {
  type Composition,
  createUsageRow,
  emailRow,
  eventRow,
  type History,
  isPriced,
  type Row,
  TABLES,
} from "./demo-rows.ts";

/** Every third one of the others has a second factor. */
const hasFactor = (index: number) => index > 1 && index % 3 === 0;
/** People who joined last, and have not verified their address. */
const UNVERIFIED = 4;

/**
 * Fills an empty database with accounts, further people and two programs, and what they did in the
 * last 90 days. Does nothing if there are users.
 * @param password of the given accounts; nobody has those of the others
 * @param webhookUrl where events are posted
 */
export async function writeHistory(
  accounts: Account[],
  password: string,
  webhookUrl: string,
): Promise<void> {
  const config = requireConfig(process.env, "command");
  const store = await openStore(config.database, createLog("warn"));
  try {
    await store.migrate();
    const em = store.fork();
    if ((await em.count(User)) > 0) return;
    const passwords = await createPasswords();
    const cipher = createCipher(...readSecretKeys(config));
    const secrets = {
      own: await passwords.hash(password),
      others: await passwords.hash(crypto.randomUUID()),
      secretOf: (id: string) => cipher.encrypt(randomBytes(20).toString("hex"), totpContext(id)),
      webhookSecretOf: (id: string) =>
        cipher.encrypt(`whsec_${randomBytes(32).toString("base64")}`, secretContext(id)),
    };
    const history = compose(accounts, secrets, config.aiCatalog, webhookUrl);
    await em.transactional(async () => {
      await em.execute(
        `select audit_add_partition(month::date) from generate_series(
           date_trunc('month', now() - interval '${DAYS + 1} days'), date_trunc('month', now()), '1 month') as month`,
      );
      for (const table of TABLES) await insert(em, table, history[table]);
      await em.execute(
        "insert into suspended_users select id from users where suspended_at is not null",
      );
      await em.execute("insert into audit_unsealed (event_id) select id from audit_events");
    });
  } finally {
    await store.close();
  }
}

/** Columns that are not given keep their defaults. All rows of a table have the same. */
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

/** Password hashes of the given accounts and of the others, and secrets. */
type Secrets = {
  own: string;
  others: string;
  secretOf: (userId: string) => string;
  webhookSecretOf: (webhookId: string) => string;
};

function compose(
  accounts: Account[],
  secrets: Secrets,
  catalogueName: string | undefined,
  webhookUrl: string,
): History {
  const chance = createChance();
  const now = Date.now();
  const people = peopleOf(accounts, now, chance);
  const rows = Object.fromEntries(TABLES.map((table) => [table, [] as Row[]])) as History;
  const { webhookSecretOf } = secrets;
  const usageRow = createUsageRow(catalogueName);
  const composition = { now, people, rows, chance, usageRow, webhookSecretOf };
  const lastLogins = new Map<string, Date>();
  const today = now - (now % DAY);
  for (let day = DAYS - 1; day >= 0; day--)
    for (const person of people) liveDay(person, today - day * DAY, composition, lastLogins);
  for (const person of people) {
    const isVerified = person.index < people.length - UNVERIFIED;
    const lastLogin = lastLogins.get(person.id) ?? null;
    rows.users.push(userRow(person, isVerified, lastLogin, secrets));
  }
  const isOver = (row: Row) => (row.created_at as Date).getTime() <= now;
  rows.emails = rows.emails.filter(isOver);
  rows.ai_usage = rows.ai_usage.filter(isOver);
  addPrograms(composition);
  addIncidents(composition);
  if (isPriced(catalogueName)) addBudgets(composition);
  rows.audit_events.sort((a, b) => (String(a.id) < String(b.id) ? -1 : 1));
  addWebhooks(composition, webhookUrl);
  return rows;
}

/** What a person did on a day, in the daytime of the place. Weekends are quieter. */
function liveDay(
  person: Person,
  midnight: number,
  composition: Composition,
  lastLogins: Map<string, Date>,
): void {
  const { now, rows, chance, usageRow } = composition;
  join(person, midnight, composition, lastLogins);
  if (chance.next() > person.diligence * (isWeekend(midnight) ? 0.3 : 1)) return;
  const localMinutes = 7 * 60 + chance.below(7 * 60) + chance.below(7 * 60);
  const at = (minutes: number) =>
    new Date(midnight + (localMinutes - person.hoursAhead * 60 + minutes) * MINUTE);
  const signedIn = at(1);
  if (at(0) < person.createdAt || signedIn.getTime() > now) return;
  const client = CLIENTS[(person.index + chance.below(2)) % CLIENTS.length] ?? CLIENTS[0];
  const source = sourceAt(person.place, person.index, client);
  const happened = (event: string, minutes: number, outcome?: string) => {
    if (at(minutes).getTime() > now) return;
    rows.audit_events.push(eventRow(person, event, at(minutes), source, outcome));
  };
  if (chance.below(28) === 0) happened("auth.login_failed", 0, "failure");
  happened("auth.login", 1);
  lastLogins.set(person.id, signedIn);
  if (now - signedIn.getTime() < 7 * DAY) rows.sessions.push(sessionRow(person, signedIn, source));
  if (chance.below(60) === 0) happened("user.profile_updated", 5);
  if (chance.below(150) === 0) {
    happened("user.password_changed", 6);
    rows.emails.push(emailRow(person, "password-changed", at(6)));
  }
  if (hasFactor(person.index) && chance.below(90) === 0) happened("auth.backup_code_used", 7);
  for (let call = chance.below(9); call > 0; call--)
    rows.ai_usage.push(usageRow(person, at(3 + call * 4), chance));
}

/** The registration of a person, if it was on that day. */
function join(
  person: Person,
  midnight: number,
  { now, rows }: Composition,
  lastLogins: Map<string, Date>,
): void {
  const joined = person.createdAt.getTime();
  if (joined < midnight || joined >= midnight + DAY) return;
  const client = CLIENTS[person.name === NEWEST ? 2 : person.index % CLIENTS.length] ?? CLIENTS[0];
  const source = sourceAt(person.place, person.index, client);
  rows.audit_events.push(eventRow(person, "auth.register", person.createdAt, source));
  rows.emails.push(emailRow(person, "verify-email", person.createdAt));
  const signedIn = new Date(joined + 3 * MINUTE);
  if (signedIn.getTime() > now) return;
  rows.audit_events.push(eventRow(person, "auth.login", signedIn, source));
  if (now - joined < 7 * DAY) rows.sessions.push(sessionRow(person, signedIn, source));
  lastLogins.set(person.id, signedIn);
}

const sessionRow = ({ id }: Person, at: Date, { client, ip, location }: Source): Row => ({
  ...{ id: newId(at), user_id: id, generation: 0, acknowledged: true, rotated_at: at },
  ...{ device: client[0], ip, location, created_at: at },
  last_active_at: new Date(Math.min(Date.now(), at.getTime() + 45 * MINUTE)),
  expires_at: new Date(at.getTime() + 7 * DAY),
  ends_at: new Date(at.getTime() + 30 * DAY),
});

function userRow(
  person: Person,
  isVerified: boolean,
  lastLogin: Date | null,
  { own, others, secretOf }: Secrets,
): Row {
  const { id, email, name, role, createdAt, index } = person;
  return {
    ...{ id, email, canonical_email: email, name, role },
    password_hash: index < 2 ? own : others,
    ...{ is_service: false, has_password: true, was_verified: false, second_factor: false },
    mfa_secret: hasFactor(index) ? secretOf(id) : null,
    mfa_confirmed_at: hasFactor(index) ? createdAt : null,
    ...{ suspended_at: null, deletion_at: null },
    password_changed_at: index < 2 ? new Date() : createdAt,
    email_verified_at: isVerified ? new Date(createdAt.getTime() + HOUR / 4) : null,
    ...{ terms_accepted_at: createdAt, created_at: createdAt, updated_at: createdAt },
    last_login_at: lastLogin,
  };
}
