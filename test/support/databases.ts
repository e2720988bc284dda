import { randomUUID } from "node:crypto";
import pg from "pg";

/** Every database of a run has this in its name, and goes with it. */
const PREFIX = "gatehouse_test_";

/** Makes an empty database on the test server. @returns its URL */
export async function createDatabase(label: string): Promise<string> {
  const server = process.env.TEST_DATABASE_URL as string;
  const name = `${PREFIX}${process.env.TEST_RUN}_${label}`;
  await onServer(server, (client) => client.query(`create database ${name}`));
  return Object.assign(new URL(server), { pathname: `/${name}` }).href;
}

/** A database for a process that may have any: where there is a server it starts in a third of the time. @returns variables */
export async function anyDatabase(): Promise<Record<string, string>> {
  return process.env.TEST_SERVERS ? { DATABASE_URL: await createDatabase(randomUUID().slice(0, 8)) } : {};
}

/** Before a run: names it. After it: drops its databases. */
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
