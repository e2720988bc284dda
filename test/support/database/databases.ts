// Databases on the test server, and SQL on them.

import { randomUUID } from "node:crypto";
import pg from "pg";
import { onceInRun } from "../once.ts";
import { temporaryFolder } from "../temporary-folder.ts";

/** The names of all test databases begin with this. The end of a run drops those of the run. */
const PREFIX = "gatehouse_test_";

/** The name of a test database of this run. */
export const testDatabase = (label: string) => `${PREFIX}${process.env.TEST_RUN}_${label}`;

/**
 * Makes an empty database on the test server.
 * @param options of `create database`, such as its locale
 * @returns its URL
 */
export async function createDatabase(
  label = randomUUID().slice(0, 8),
  options = "",
): Promise<string> {
  const server = process.env.TEST_DATABASE_URL as string;
  const name = testDatabase(label);
  await runSql(server, `create database ${name} ${options}`);
  return Object.assign(new URL(server), { pathname: `/${name}` }).href;
}

/** The label of the database that others are copies of. */
const TEMPLATE = "template";

/**
 * Makes a database with all migrations: a copy of one that is migrated once in a run.
 * @returns its URL
 */
export async function createMigratedDatabase(): Promise<string> {
  await onceInRun("migrated-database", makeTemplate);
  return createDatabase(undefined, `template ${testDatabase(TEMPLATE)}`);
}

async function makeTemplate(): Promise<void> {
  const { openQuietStore } = await import("./store.ts"); // late: this file also sets up runs
  const store = await openQuietStore(await createDatabase(TEMPLATE));
  await store.migrate();
  await store.close();
  const server = process.env.TEST_DATABASE_URL as string;
  await runSql(server, `alter database ${testDatabase(TEMPLATE)} allow_connections false`); // a copy needs it unused
}

/**
 * Storage for a process: a folder, and a migrated database of the server where there is one. With
 * it a process starts in a third of the time.
 * @returns variables
 */
export async function freshStorage(): Promise<{ DATA_DIR: string; DATABASE_URL?: string }> {
  return {
    DATA_DIR: temporaryFolder(),
    ...(process.env.TEST_SERVERS && { DATABASE_URL: await createMigratedDatabase() }),
  };
}

/** Names a run before it, and drops its databases after it. */
export function setup(): () => Promise<void> {
  const run = `${process.pid}`;
  process.env.TEST_RUN = run;
  const server = process.env.TEST_DATABASE_URL ?? "postgres://postgres@127.0.0.1:5432/postgres";
  return async () => {
    const pattern = `${PREFIX}${run}_%`.replaceAll("_", "\\_");
    const names = await runSql(
      server,
      `select datname from pg_database where datname like '${pattern}'`,
    ).catch(() => []);
    for (const { datname } of names)
      await runSql(server, `drop database if exists ${datname} with (force)`);
  };
}

/**
 * Runs one statement, or several without results, on its own connection.
 * @returns the rows
 */
// biome-ignore lint/suspicious/noExplicitAny: as pg's own rows
export async function runSql<T = any>(
  url: string,
  sql: string,
  values: unknown[] = [],
): Promise<T[]> {
  const client = new pg.Client(url).on("error", () => {}); // a lost connection rejects the statement
  await client.connect();
  return client
    .query(sql, values)
    .then(({ rows }) => rows)
    .finally(() => client.end());
}
