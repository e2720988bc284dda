import { randomBytes, randomUUID } from "node:crypto";
import pg from "pg";
import { expect, test } from "vitest";
import { openStore } from "../../../services/store/open-store.ts";
import { checkSchema } from "../../../services/store/schema.ts";
import { startApp } from "../../support/app.ts";
import { createDatabase } from "../../support/databases.ts";
import { captureLog, silent } from "../../support/log.ts";
import { openQuietStore } from "../../support/stores.ts";

test("Start without migrating: is refused by a database that lacks migrations, with the command to run", async () => {
  const start = startApp({ mode: "embedded", env: { MIGRATE: "off" } });
  await expect(start).rejects.toThrow(/^The database lacks (\d+) of \1 migrations\. Run npm run migrate /);
});

test.runIf(process.env.TEST_SERVERS)(
  "Start without migrating: serves a database of a newer version, with a warning",
  async () => {
    const env = {
      DATABASE_URL: await createDatabase(),
      SECRET_KEY: randomBytes(32).toString("base64"),
    };
    const first = await startApp({ mode: "servers", env });
    await first.sql("insert into mikro_orm_migrations (name) values ('Migration30000101000000_later')");
    await first.close();
    const again = await startApp({ mode: "servers", env: { ...env, MIGRATE: "off" } });
    expect((await again.httpClient().get("/health/ready")).status).toBe(200);
    const warnings = [...first.logs, ...again.logs].filter((line) => line.includes("schema is newer"));
    expect(warnings).toEqual([expect.stringContaining("Migration30000101000000_later")]);
    await again.close();
  },
);

test.runIf(process.env.TEST_SERVERS)("Migrations: may take longer than other statements", async () => {
  const url = await createDatabase();
  const client = new pg.Client(url);
  await client.connect();
  await client.query(`
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
  const store = await openQuietStore(url);
  await store.migrate();
  const { rows } = await client.query("select limits from noted where made = 'public.users'");
  expect(rows[0]).toEqual({ limits: null });
  await store.close();
  await client.end();
});

test.runIf(process.env.TEST_SERVERS)("Migrations: the search extension may be in a schema of its own", async () => {
  const url = await createDatabase();
  const client = new pg.Client(url);
  await client.connect();
  await client.query('create schema "of Hosts"; create extension pg_trgm schema "of Hosts"');
  const store = await openQuietStore(url);
  await store.migrate();
  const { rows } = await client.query("select indexdef from pg_indexes where indexname = 'users_search'");
  expect(rows).toEqual([{ indexdef: expect.stringContaining('"of Hosts".gin_trgm_ops') }]);
  await store.close();
  await client.end();
});

test.runIf(process.env.TEST_SERVERS)(
  "Migrations: without the search extension there is a warning and no index, until the extension exists",
  async () => {
    const role = `modest_${randomUUID().slice(0, 8)}`;
    const url = new URL(await createDatabase(role));
    const owner = new pg.Client(url.href);
    await owner.connect();
    await owner.query(`create role ${role} login password 'modest'; create schema authorization ${role}`);
    const { lines, log } = captureLog({ level: "warn" });
    const modestUrl = Object.assign(url, { username: role, password: "modest" }).href;
    const modest = await openStore({ kind: "postgres", url: modestUrl }, log);
    try {
      await modest.migrate();
      await checkSchema(modest.fork(), log);
      expect(lines.splice(0)).toEqual([expect.stringContaining("user search has no index")]);
      await owner.query("create extension pg_trgm");
      await modest.migrate();
      await checkSchema(modest.fork(), log);
      expect(lines).toEqual([]);
    } finally {
      await modest.close();
      await owner.query(`drop owned by ${role} cascade; drop role ${role}`);
      await owner.end();
    }
  },
);

test.runIf(process.env.TEST_SERVERS)(
  "Migrations: the error for a role without rights names the missing rights and the schema",
  async () => {
    const role = `lowly_${randomUUID().slice(0, 8)}`;
    const url = new URL(await createDatabase(role));
    const owner = await openQuietStore(url.href);
    const ask = (sql: string) => owner.fork().execute(sql);
    await ask("revoke create on schema public from public"); // the default from PostgreSQL 15 on
    await ask(`create role ${role} login password 'lowly'`);
    const lowly = await openQuietStore(Object.assign(url, { username: role, password: "lowly" }).href);
    try {
      const missing =
        /^DATABASE_URL: the role lacks a privilege: permission denied for (schema|table) .*\. Make it the owner/;
      await expect(lowly.migrate()).rejects.toThrow(missing);
      await owner.migrate();
      await expect(checkSchema(lowly.fork(), silent)).rejects.toThrow(missing);
    } finally {
      await lowly.close();
      await ask(`drop role ${role}`);
      await owner.close();
    }
  },
);
