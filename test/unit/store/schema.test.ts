import { randomBytes, randomUUID } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { openStore } from "../../../services/store/open-store.ts";
import { checkSchema, MIGRATIONS } from "../../../services/store/schema.ts";
import { startApp } from "../../support/app.ts";
import { createDatabase, runSql } from "../../support/database/databases.ts";
import { openQuietStore } from "../../support/database/store.ts";
import { begin } from "../../support/database/transaction.ts";
import { captureLog } from "../../support/log.ts";
import { startProcess } from "../../support/processes/processes.ts";
import { forTest } from "../../support/suites.ts";
import { until } from "../../support/until.ts";

const onServers = test.runIf(process.env.TEST_SERVERS);

test("Start without migrating: is refused if the database lacks migrations, with the command to run", async () => {
  // In a process, since the embedded databases of this one have all migrations.
  const start = startProcess({ DATABASE_URL: "memory:", MIGRATE: "off" });
  await expect(start).rejects.toThrow(
    /The database lacks (\d+) of \1 migrations\. Run npm run migrate /,
  );
});

onServers("Start without migrating: serves a newer database with a warning", async () => {
  const env = {
    DATABASE_URL: await createDatabase(),
    SECRET_KEY: randomBytes(32).toString("base64"),
  };
  const first = await startApp({ mode: "servers", env });
  await first.sql(
    "insert into mikro_orm_migrations (name) values ('Migration30000101000000_later')",
  );
  await first.close();
  const again = await forTest(startApp({ mode: "servers", env: { ...env, MIGRATE: "off" } }));
  expect((await again.httpClient().get("/health/ready")).status).toBe(200);
  const warnings = [...first.logs, ...again.logs].filter((line) =>
    line.includes("schema is newer"),
  );
  expect(warnings).toEqual([expect.stringContaining("Migration30000101000000_later")]);
});

/**
 * A database after some statements, with a store that is not migrated yet and its warnings.
 * @param rights statements of the owner about the role that the store is to have instead
 */
async function openDatabase(statements: string, rights?: (role: string) => string) {
  const role = `lowly_${randomUUID().slice(0, 8)}`;
  const url = await createDatabase(role);
  const query = (sql: string) => runSql(url, sql);
  await query(statements);
  if (rights) await query(`create role ${role} login password 'lowly'; ${rights(role)}`);
  const own = rights
    ? Object.assign(new URL(url), { username: role, password: "lowly" }).href
    : url;
  const { lines, log } = captureLog({ level: "warn" });
  const store = await openStore({ kind: "postgres", url: own }, log);
  onTestFinished(async () => {
    await store.close();
    if (rights) await query(`drop owned by ${role} cascade; drop role ${role}`);
  });
  const check = () => checkSchema(store.fork(), log);
  return { url, store, lines, query, check };
}

onServers("Migrations: may take longer than other statements", async () => {
  const { store, query } = await openDatabase(`
    create table noted (made text, limits text);
    create function note() returns event_trigger language plpgsql as $$ begin
      insert into noted select object_identity, (select string_agg(name, ', ') from pg_settings where setting <> '0'
        and name ~ '^(statement|lock|transaction|idle_in_transaction_session)_timeout$')
      from pg_event_trigger_ddl_commands();
    end $$;
    create event trigger note on ddl_command_end execute function note();
    do $$ declare name text; begin
      for name in select s.name from pg_settings s where s.name ~ '^(transaction|idle_in_transaction_session)_timeout$' loop
        execute format('alter database %I set %I = %L', current_database(), name, '20s');
      end loop;
    end $$`);
  await store.migrate();
  expect(await query("select distinct limits from noted where made = 'public.users'")).toEqual([
    { limits: "lock_timeout" },
  ]);
});

/**
 * Runs the migrations of the first schema. The later ones note which of its tables they read or
 * write.
 */
async function openFirstSchema() {
  const later = MIGRATIONS.map(({ name }) => name).filter(
    (name) => name > "Migration20261121000800_proof",
  );
  const opened = await openDatabase(`
    create table mikro_orm_migrations (id serial primary key, name text, executed_at timestamptz);
    insert into mikro_orm_migrations (name) select unnest('{${later}}'::text[])`);
  await opened.store.migrate();
  await opened.query(`
    delete from mikro_orm_migrations where name = any('{${later}}');
    create table noted (name text, uses bigint);
    create table first as select relid from pg_stat_user_tables where relname not in ('noted', 'mikro_orm_migrations');
    create function note() returns trigger language plpgsql as $$ begin
      insert into noted select relname, seq_scan + coalesce(idx_scan, 0) + n_tup_ins + n_tup_upd + n_tup_del
        from pg_stat_xact_user_tables join first using (relid);
      return null;
    end $$;
    create constraint trigger note after insert on mikro_orm_migrations
      initially deferred for each row execute function note()`);
  return opened;
}

onServers("Migrations: read and write no row of a table that they lock", async () => {
  const { store, query } = await openFirstSchema();
  const used = () => query("select distinct name from noted where uses > 0 order by name");
  await store.migrate();
  expect(await query("select from noted")).not.toEqual([]);
  expect(await used()).toEqual([]);
  await query(`alter table emails add check (attempts >= 0); create index on users (name);
    alter table attempts add column spread float default random();
    insert into mikro_orm_migrations (name) values ('slow')`);
  expect(await used()).toEqual([{ name: "attempts" }, { name: "emails" }, { name: "users" }]);
});

onServers("Migrations: do not block others while they wait for a table", async () => {
  const { url, store, query, lines } = await openFirstSchema();
  const long = await begin(url, "select from attempts", []);
  const migrated = store.migrate();
  await until("the migration to give up", () =>
    lines.join().includes("used by a long transaction"),
  );
  await query("set lock_timeout = '5s'; select from attempts");
  await long.commit();
  await migrated;
  expect(await query("select reservations from attempts")).toEqual([]);
});

onServers("Migrations: the search extension may be in a separate schema", async () => {
  const { store, query } = await openDatabase(
    'create schema "of Hosts"; create extension pg_trgm schema "of Hosts"',
  );
  await store.migrate();
  const [index] = await query(
    "select indexdef from pg_indexes where indexname = 'users_search_folded'",
  );
  expect(index).toEqual({ indexdef: expect.stringContaining('"of Hosts".gin_trgm_ops') });
});

onServers(
  "Migrations: without the search extension they warn, and create no index until it exists",
  async () => {
    const rights = (role: string) => `create schema authorization ${role}`;
    const { store, lines, query, check } = await openDatabase("", rights);
    await store.migrate();
    await check();
    expect(lines.splice(0)).toEqual([expect.stringContaining("user search has no index")]);
    await query("create extension pg_trgm");
    await store.migrate();
    await check();
    expect(lines).toEqual([]);
  },
);

onServers("Migrations: the error of a role without privileges names the privilege", async () => {
  const rights = () => "revoke create on schema public from public"; // as from PostgreSQL 15 on
  const { url, store, check } = await openDatabase("", rights);
  const missing =
    /^DATABASE_URL: the role lacks a privilege: permission denied for (schema|table) .*\. Make it the owner/;
  await expect(store.migrate()).rejects.toThrow(missing);
  await (await forTest(openQuietStore(url))).migrate();
  await expect(check()).rejects.toThrow(missing);
});
