import { randomUUID } from "node:crypto";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { closing } from "./closing.ts";
import { type Server, startServer } from "./server.ts";

const databaseServer =
  process.env.TEST_DATABASE_URL ?? "postgres://postgres@127.0.0.1:5432/postgres";

/** Gatehouse on PostgreSQL, with somebody signed in. */
export type Stage = {
  server: Server;
  databaseUrl: string;
  credentials: { email: string; password: string };
  accessToken: string;
  refreshToken: string;
  close(): Promise<void>;
};

/**
 * Sets the stage for a benchmark: a fresh database, one process of Gatehouse on one core or all,
 * limits off.
 */
export async function setStage(
  env: Record<string, string> = {},
  core: number | "all" = 0,
): Promise<Stage> {
  const { url: databaseUrl, drop } = await createDatabase();
  const variables = {
    DATABASE_URL: databaseUrl,
    DATA_DIR: mkdtempSync(join(tmpdir(), "gatehouse-bench-")),
    RATE_LIMITS: "off",
    ACCESS_TOKEN_TTL: "2h",
    LOG_LEVEL: "warn",
    ...env,
  };
  const server = await startServer(["gateway/main.ts"], variables, core);
  const credentials = { email: "ann@example.com", password: "Correct-horse-1" };
  await post(server, "/auth/register", { ...credentials, name: "Ann", acceptTerms: true });
  const { accessToken, refreshToken } = (await (
    await post(server, "/auth/login", credentials)
  ).json()) as Stage;
  return {
    server,
    databaseUrl,
    credentials,
    accessToken,
    refreshToken,
    async close() {
      await server.close();
      await drop();
    },
  };
}

/** Creates an empty database. */
export async function createDatabase() {
  const name = `gatehouse_bench_${randomUUID().slice(0, 8)}`;
  await onServer(`create database ${name}`);
  const drop = closing(() => onServer(`drop database ${name} with (force)`));
  return { url: Object.assign(new URL(databaseServer), { pathname: `/${name}` }).href, drop };
}

export function post({ url }: Pick<Server, "url">, path: string, body: unknown): Promise<Response> {
  return fetch(url + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

async function onServer(statement: string): Promise<void> {
  const client = new pg.Client(databaseServer);
  await client.connect();
  await client.query(statement);
  await client.end();
}
