import { randomUUID } from "node:crypto";
import pg from "pg";
import { temporaryFolder } from "./temporary-folder.ts";

/** The names of all test databases begin with this. The end of a run drops those of the run. */
const PREFIX = "gatehouse_test_";

/** Makes an empty database on the test server. @returns its URL */
export async function createDatabase(label = randomUUID().slice(0, 8)): Promise<string> {
  const server = process.env.TEST_DATABASE_URL as string;
  const name = `${PREFIX}${process.env.TEST_RUN}_${label}`;
  await onServer(server, (client) => client.query(`create database ${name}`));
  return Object.assign(new URL(server), { pathname: `/${name}` }).href;
}

/**
 * Storage for a process: a folder, and a database of the server where there is one. With the server it starts in a
 * third of the time. @returns variables
 */
export async function freshStorage(): Promise<{ DATA_DIR: string; DATABASE_URL?: string }> {
  return { DATA_DIR: temporaryFolder(), ...(process.env.TEST_SERVERS && { DATABASE_URL: await createDatabase() }) };
}

/** Names a run before it, and drops its databases after it. */
export function setup(): () => Promise<void> {
  const run = `${process.pid}`;
  process.env.TEST_RUN = run;
  const server = process.env.TEST_DATABASE_URL ?? "postgres://postgres@127.0.0.1:5432/postgres";
  return async () => {
    await onServer(server, async (client) => {
      const { rows } = await client.query("select datname from pg_database where datname like $1", [
        `${PREFIX}${run}_%`.replaceAll("_", "\\_"),
      ]);
      for (const { datname } of rows) await client.query(`drop database if exists ${datname} with (force)`);
    }).catch(() => {}); // no server, no databases
  };
}

async function onServer(url: string, work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}
