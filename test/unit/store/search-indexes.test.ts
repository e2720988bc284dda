import { describe, expect, test } from "vitest";
import { listUsers } from "../../../services/store/admin-users.ts";
import { listEmails } from "../../../services/store/emails.ts";
import type { Store } from "../../../services/store/store.ts";
import { createDatabase, runSql } from "../../support/database/databases.ts";
import { openQuietStore } from "../../support/database/store.ts";
import { begin } from "../../support/database/transaction.ts";
import { forSuite, forTest } from "../../support/suites.ts";
import { times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";

const INDEXES = ["emails_recipient", "users_search_folded"];

/** A migrated database. */
async function openMigrated() {
  const url = await createDatabase();
  const store = await forSuite(openQuietStore(url));
  await store.migrate();
  const definitionsOf = async () =>
    runSql<{ name: string; isNew: boolean; isValid: boolean }>(
      url,
      `select c.relname as name, pg_get_indexdef(c.oid) ~ '(searchable|folded)[(]' as "isNew", i.indisvalid as "isValid"
       from pg_class c join pg_index i on i.indexrelid = c.oid
       where c.relname ~ '^(users_search|emails_recipient)' order by 1`,
    );
  return { url, store, definitionsOf, query: (sql: string) => runSql(url, sql) };
}

const complete = INDEXES.map((name) => ({ name, isNew: true, isValid: true }));

/** Fills the tables so that their indexes pay. */
const FILL = `
  insert into users (id, email, canonical_email, name, role, password_hash, password_changed_at, terms_accepted_at,
    created_at, updated_at)
  select (lpad(to_hex(1700000000000 + i), 12, '0') || '7000a' || substr(md5(i::text), 1, 15))::uuid, mail, mail,
    case when i % 2 = 0 then 'Zoë ' else 'Ann ' end || i, 'user', '-', now(), now(), now(), now()
  from (select i, 'person' || i || '@example.com' as mail from generate_series(1, 20000) as i) as made;
  insert into emails (id, user_id, "to", template, facts, status, created_at)
  select id, id, email, 'verify-email', '{}', 'sent', now() from users;
  analyze`;

/** Whether an index was scanned while work ran. */
async function scansDuring(url: string, work: (store: Store) => Promise<unknown>) {
  const read = async () => {
    const rows = await runSql<{ name: string; scans: number }>(
      url,
      "select indexrelname as name, idx_scan::int as scans from pg_stat_user_indexes where indexrelname in ('users_search_folded', 'emails_recipient')",
    );
    return Object.fromEntries(rows.map(({ name, scans }) => [name, scans]));
  };
  const before = await read();
  const store = await openQuietStore(url);
  await work(store).finally(() => store.close()); // the end of its connections reports the scans
  return async (name: string) => ((await read())[name] ?? 0) > (before[name] ?? 0);
}

/** Does work when it is first needed. */
function openOnce<T>(work: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  return () => {
    result ??= work();
    return result;
  };
}

const callOf = (store: Store) => ({ em: store.fork(), clock: { now: () => new Date() } });

describe.runIf(process.env.TEST_SERVERS)("Indexes of searches", () => {
  test("Migrations: an index of the release before stays beside the new one, so that its processes can start", async () => {
    const { store, query, definitionsOf } = await openMigrated();
    await query(`drop index users_search_folded; create index users_search on users using gin
      ((lower(email) || chr(10) || lower(name)) gin_trgm_ops) with (fastupdate = off)`);
    const earlier = { name: "users_search", isNew: false, isValid: true };
    for (const _ of times(2, String)) {
      await store.migrate();
      expect(await definitionsOf()).toEqual([complete[0], earlier, complete[1]]);
    }
  });

  test("Migrations: an interrupted index build is repeated", async () => {
    const { store, query, definitionsOf } = await openMigrated();
    await query(
      "update pg_index set indisvalid = false where indexrelid = 'users_search_folded'::regclass",
    );
    await store.migrate();
    expect(await definitionsOf()).toEqual(complete);
  });

  test("Migrations: writes continue while an index is built", async () => {
    const { url, store, query, definitionsOf } = await openMigrated();
    await query("drop index users_search_folded");
    const long = await begin(url, "update users set name = name", []);
    const migrated = store.migrate();
    await until("the index to be made", async () =>
      (await definitionsOf()).some(
        ({ name, isValid }) => name === "users_search_folded" && !isValid,
      ),
    );
    await query("set lock_timeout = '5s'; update users set bio = 'x'");
    await long.commit();
    await migrated;
    expect(await definitionsOf()).toEqual(complete);
  });

  test("Migrations: replicas that create the extension and the indexes concurrently wait for each other", async () => {
    const { url, query, definitionsOf } = await openMigrated();
    const stores = await Promise.all(times(10, () => forTest(openQuietStore(url))));
    for (const _ of times(8, String)) {
      await query(
        "drop extension pg_trgm cascade; drop index if exists users_search_folded, emails_recipient",
      );
      await Promise.all(stores.map((store) => store.migrate()));
      expect(await definitionsOf()).toEqual(complete);
    }
  });

  const filled = openOnce(async () => {
    const opened = await openMigrated();
    await opened.query(FILL);
    return opened;
  });

  test.each([
    { search: "person1234@" },
    { search: "ZOË 1998" },
    { search: "Zoë 1998".normalize("NFD") },
    { search: "n19999@bücher" },
  ])("GET /admin/users: the search for $search uses the index", async ({ search }) => {
    const { url } = await filled();
    const uses = await scansDuring(url, (store) => listUsers(callOf(store), { search }, {}));
    await until("the index to be counted", () => uses("users_search_folded"));
  });

  test("GET /admin/email-logs: the filter by recipient uses the index", async () => {
    const { url } = await filled();
    const uses = await scansDuring(url, async (store) => {
      const { items } = await listEmails(callOf(store), { to: "PERSON77@example.com" }, {});
      expect(items.map(({ to }) => to)).toEqual(["person77@example.com"]);
    });
    await until("the index to be counted", () => uses("emails_recipient"));
  });
});
