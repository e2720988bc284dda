import { v7 as uuid } from "uuid";
import { afterAll, expect, test } from "vitest";
import { listUsers, type UserFilter } from "../../../services/store/admin-users.ts";
import type { Store } from "../../../services/store/store.ts";
import { createMigratedDatabase } from "../../support/database/databases.ts";
import { insertUsers, openQuietStore } from "../../support/database/store.ts";

const COUNT = 30_000;
/** The largest exact total. */
const COUNTED = 10_000;

type Row = { id: string; text: string; role: string; verified: boolean; locked: boolean };

/** Adds users. Many, some, few, only the oldest or none have the words of the searches. */
async function addUsers(store: Store): Promise<Row[]> {
  const em = store.fork();
  await em.execute(`
    insert into users (id, email, canonical_email, name, role, password_hash, password_changed_at, email_verified_at,
      terms_accepted_at, created_at, updated_at)
    select (lpad(to_hex(1700000000000 + i), 12, '0') || '7000a' || substr(md5(i::text), 1, 15))::uuid, mail, mail,
      'N' || i || case when i % 2 = 0 then ' even' else '' end || case when i % 10 = 0 then ' tenth' else '' end
        || case when i % 1000 = 0 then ' rarely' else '' end || case when i <= 300 then ' Eldest qz' else '' end
        || case when i <= 3000 or i > ${COUNT} - 600 then ' outer' else '' end,
      case when i % 500 = 0 then 'admin' else 'user' end, '-', now(), case when i % 3 = 0 then now() end, now(), now(), now()
    from (select i, 'p' || i || '@example.com' as mail from generate_series(1, ${COUNT}) as i) as made`);
  await em.execute(`
    insert into attempts (kind, subject, reserved, failed, reserved_at, failed_at, locked_until)
    select 'password', canonical_email, 0, 5, now(), now(), now() + interval '1 day' from users where name like '%7'`);
  await em.execute("analyze users");
  await em.execute("analyze attempts");
  return em.execute<Row[]>(`
    select id, lower(email || chr(10) || name) as text, role, email_verified_at is not null as verified,
      name like '%7' as locked from users order by id desc`);
}

const matches = (row: Row, { search, role, emailVerified, locked }: UserFilter) =>
  (search === undefined || row.text.includes(search.toLowerCase())) &&
  (role === undefined || row.role === role) &&
  (emailVerified === undefined || row.verified === emailVerified) &&
  (locked === undefined || row.locked === locked);

const filters: UserFilter[] = [
  {},
  { search: "example" },
  { search: "EVEN" },
  { search: "tenth" },
  { search: "rarely" },
  { search: "eldest" },
  { search: "outer" }, // only the newest and the oldest: the search ends at its limit
  { search: "absent" },
  { search: "p29999@example.com" },
  { search: "even", emailVerified: false },
  { search: "eldest", role: "admin" },
  { search: "tenth", locked: false },
  { search: "even", locked: true },
  { locked: true },
  { locked: false },
  { locked: true, role: "user", emailVerified: true },
];
const short: UserFilter[] = [
  { search: "ev" },
  { search: "qz" },
  { search: "zz" },
  { search: "z", locked: false },
];
const all = [...filters, ...short];

// PGlite is slow to fill and runs the same statements
const store = await openQuietStore(
  process.env.TEST_SERVERS ? await createMigratedDatabase() : undefined,
);
await store.migrate();
const rows = await addUsers(store);
const clock = { now: () => new Date() };
afterAll(() => store.close());

const list = (filter: UserFilter, request: Parameters<typeof listUsers>[2]) =>
  listUsers({ em: store.fork(), clock }, filter, request);

/** Adds a newer user with every word. */
async function addLate(): Promise<void> {
  const [email, name] = [`p0.${uuid()}@example.com`, "even tenth rarely eldest qz"];
  const [id = ""] = await insertUsers(store, 1, {
    email,
    canonicalEmail: email,
    name,
    role: "admin",
  });
  rows.unshift({ id, text: `${email}\n${name}`, role: "admin", verified: false, locked: false });
}

const idsOf = (filter: UserFilter) =>
  rows.filter((row) => matches(row, filter)).map(({ id }) => id);

test.each(all)(
  "List of many users: pages by cursor contain each user of the first page's time once: %j",
  async (filter) => {
    const expected = idsOf(filter);
    const first = await list(filter, { limit: 500 });
    const seen = first.items.map(({ id }) => id);
    for (let cursor = first.nextCursor, pages = 1; cursor !== undefined && pages < 200; pages++) {
      if (pages % 4 === 1) await addLate();
      const page = await list(filter, { limit: 500, cursor });
      seen.push(...page.items.map(({ id }) => id));
      cursor = page.nextCursor;
    }
    expect(seen).toEqual(expected);
  },
);

test.each(all)(
  "List of many users: pages by number contain the same rows, with the right total: %j",
  async (filter) => {
    const ids = idsOf(filter);
    for (const page of [1, 2, 3, 15, 100]) {
      const { items } = await list(filter, { limit: 100, page });
      expect(items.map(({ id }) => id)).toEqual(ids.slice((page - 1) * 100, page * 100));
    }
    if (short.includes(filter)) return;
    const { items: _, nextCursor: __, ...totals } = await list(filter, {});
    const beyond = expect.toSatisfy((total: number) => total > COUNTED && total < 2 * ids.length);
    expect(totals).toEqual(
      ids.length > COUNTED ? { total: beyond, totalEstimated: true } : { total: ids.length },
    );
  },
);
