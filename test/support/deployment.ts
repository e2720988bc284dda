import { randomBytes, randomUUID } from "node:crypto";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import pg from "pg";
import { createDatabase } from "./databases.ts";
import { createHttpClient, type HttpClient } from "./http-client.ts";
import { smtpMailbox } from "./mail.ts";
import { type Process, startProcess } from "./process.ts";

const PASSWORD = "Correct-horse-1";
/** A Redis database that no other suite counts in. */
const REDIS_DATABASE = 9;

/** Two gateways and two service processes on one PostgreSQL and one Redis. */
export type Deployment = Awaited<ReturnType<typeof startDeployment>>;

/** Somebody signed in, with the door they came through. */
export type Account = {
  id: string;
  email: string;
  credentials: { email: string; password: string };
  browser: HttpClient;
  accessToken: string;
  refreshToken: string;
};

/** Starts four processes; each gateway asks a service process of its own. */
export async function startDeployment(settings: Record<string, string> = {}) {
  const mail = await smtpMailbox();
  const databaseUrl = await createDatabase(randomUUID().slice(0, 8));
  const redis = new Redis(process.env.TEST_REDIS_URL as string, { db: REDIS_DATABASE });
  const database = new pg.Pool({ connectionString: databaseUrl, max: 2 });
  const env = {
    DATABASE_URL: databaseUrl,
    REDIS_URL: `${process.env.TEST_REDIS_URL}/${REDIS_DATABASE}`,
    SMTP_URL: mail.url,
    SECRET_KEY: randomBytes(32).toString("base64"),
    INTERNAL_SECRET: randomUUID(),
    DATA_DIR: mkdtempSync(join(tmpdir(), "gatehouse-replicas-")),
    PUBLIC_URL: "http://gatehouse.test",
    TRUST_PROXY: "127.0.0.1",
    RATE_LIMITS: "off",
    LOG_LEVEL: "debug",
    ...settings,
  };
  const services: Process[] = [];
  const gateways: Process[] = [];
  const starts: (() => Promise<void>)[] = [0, 1].map((i) => async () => {
    const service = await startProcess(env, "services/main.ts", /gRPC-Web and Connect on (127\.0\.0\.1:\d+)/);
    services[i] = service;
    gateways[i] = await startProcess(
      { ...env, SERVICES_URL: `http://${service.url}` },
      "gateway/main.ts",
      /events on (http:\/\/127\.0\.0\.1:\d+)/,
    );
  });
  const start = async () => void (await Promise.all(starts.map((one) => one())));
  const stop = async (signal: NodeJS.Signals) =>
    void (await Promise.all([...gateways, ...services].map((process) => process.end(signal))));
  await start();
  let turn = 0;
  const httpClient = () => createHttpClient((gateways[turn++ % 2] as Process).url);
  return {
    mail,
    redis,
    /** Somebody who comes through the one gateway, then the other. */
    httpClient,
    ...people(httpClient),
    sql: async <T>(text: string, values: unknown[] = []) => (await database.query(text, values)).rows as T[],
    databaseUrl,
    /** What every process has written so far. */
    output: () => [...gateways, ...services].map((process) => process.output()).join("\n"),
    /** Ends every process by force and starts them anew. */
    async restart() {
      await stop("SIGKILL");
      await start();
    },
    async close() {
      await stop("SIGTERM");
      await database.end();
      await redis.flushdb();
      redis.disconnect();
      await mail.close();
    },
  };
}

function people(httpClient: () => HttpClient) {
  async function register() {
    const email = `${randomUUID()}@example.com`;
    const body = { email, password: PASSWORD, name: "Ann Example", acceptTerms: true };
    const answer = await httpClient().post("/auth/register", body);
    if (answer.status !== 201) throw new Error(`register answered ${answer.status}`);
    return { id: answer.body.userId as string, email, credentials: { email, password: PASSWORD } };
  }
  async function signIn(given?: Pick<Account, "id" | "email" | "credentials">): Promise<Account> {
    const user = given ?? (await register());
    const browser = httpClient();
    const { status, body } = await browser.post("/auth/login", user.credentials);
    if (status !== 200) throw new Error(`login answered ${status} ${JSON.stringify(body)}`);
    return { ...user, browser, accessToken: body.accessToken, refreshToken: body.refreshToken };
  }
  /** What becomes of a refresh token at the next gateway. */
  const refresh = (token: string) =>
    httpClient().send("POST", "/auth/refresh", undefined, { cookie: `refreshToken=${token}` });
  const profile = async (token: string) => (await httpClient().get("/user/profile", token)).status;
  return { register, signIn, refresh, profile };
}
