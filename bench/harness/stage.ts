import { randomUUID } from "node:crypto";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { closing } from "./cleanup.ts";
import { type Server, startServer } from "./server.ts";
import { DATABASE_SERVER } from "./settings.ts";

export const PASSWORD = "Correct-horse-1";

/** Gatehouse on PostgreSQL with one signed-in user. */
export type Stage = {
  server: Server;
  databaseUrl: string;
  credentials: { email: string; password: string };
  accessToken: string;
  refreshToken: string;
  close(): Promise<void>;
};

/** Starts Gatehouse in one process on a new database, without rate limits, and signs a user in. */
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
  const credentials = { email: "ann@example.com", password: PASSWORD };
  return {
    server,
    databaseUrl,
    credentials,
    ...(await signUp(server, credentials.email)),
    async close() {
      await server.close();
      await drop();
    },
  };
}

/** Creates an empty database that is dropped at the end of the benchmark. */
export async function createDatabase() {
  const name = `gatehouse_bench_${randomUUID().slice(0, 8)}`;
  await onDatabaseServer(`create database ${name}`);
  const drop = closing(() => onDatabaseServer(`drop database ${name} with (force)`));
  return { url: Object.assign(new URL(DATABASE_SERVER), { pathname: `/${name}` }).href, drop };
}

/**
 * Registers a user and signs them in.
 * @param address client address, for a server that trusts the proxy of the benchmark
 */
export async function signUp(
  server: Pick<Server, "url">,
  email: string,
  address?: string,
): Promise<{ accessToken: string; refreshToken: string }> {
  const headers = address === undefined ? {} : { "x-forwarded-for": address };
  const account = { email, password: PASSWORD, name: "Ann", acceptTerms: true };
  await post(server, "/auth/register", account, headers);
  return signIn(server, email, headers);
}

export async function signIn(
  server: Pick<Server, "url">,
  email: string,
  headers: Record<string, string> = {},
): Promise<{ accessToken: string; refreshToken: string }> {
  const response = await post(server, "/auth/login", { email, password: PASSWORD }, headers);
  const { accessToken, refreshToken } = (await response.json()) as Stage;
  return { accessToken, refreshToken };
}

/**
 * Posts a JSON document.
 * @throws Error for any other status than 2xx
 */
export async function post(
  { url }: Pick<Server, "url">,
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<Response> {
  const response = await fetch(url + path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${path} answered ${response.status} ${await response.text()}`);
  return response;
}

async function onDatabaseServer(statement: string): Promise<void> {
  const client = new pg.Client(DATABASE_SERVER);
  await client.connect();
  await client.query(statement);
  await client.end();
}
