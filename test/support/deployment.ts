import { type ChildProcess, execFile, spawn } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import pg from "pg";
import { createAccounts, type SignedIn, type TestUser } from "./accounts.ts";
import { createDatabase } from "./databases.ts";
import { createHttpClient } from "./http-client.ts";
import { startInfrastructure } from "./infrastructure.ts";
import { smtpMailbox } from "./mailbox.ts";

/** A Redis database that no other suite counts in. */
const REDIS_DATABASE = 9;

/** Two gateways and two service processes on one PostgreSQL and one Redis. */
export type Deployment = Awaited<ReturnType<typeof startDeployment>>;

/** An account with one of its sessions. */
export type Account = TestUser & Omit<SignedIn, "user">;

/**
 * Starts four processes; each gateway asks a service process of its own.
 * @param root the folder of the release that is started first
 */
export async function startDeployment(
  settings: Record<string, string> = {},
  { servers = false, root = process.cwd() } = {},
) {
  const mail = await smtpMailbox();
  const databaseUrl = await createDatabase(randomUUID().slice(0, 8));
  const infrastructure = servers ? await startInfrastructure(databaseUrl) : undefined;
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
    ...infrastructure?.env,
    ...settings,
  };
  const services: Process[] = [];
  const gateways: Process[] = [];
  const startOne = async (i: number, changes: Record<string, string> = {}, release = root) => {
    const pair = await startApart({ ...env, ...infrastructure?.ports[i], ...changes }, {}, release);
    services[i] = pair.services;
    gateways[i] = pair.gateway;
  };
  const start = async (changes?: Record<string, string>) =>
    void (await Promise.all([0, 1].map((i) => startOne(i, changes))));
  const stop = async (signal: NodeJS.Signals) =>
    void (await Promise.all([...gateways, ...services].map((process) => process.end(signal))));
  await start();
  let turn = 0;
  const httpClient = () => createHttpClient(infrastructure?.url ?? (gateways[turn++ % 2] as Process).url);
  const accounts = createAccounts({ httpClient, mail });
  return {
    mail,
    env,
    /** The door of gRPC; of nginx if there is one. */
    grpcUrl: infrastructure?.grpcUrl ?? `http://${services[0]?.url}`,
    /** Empties Redis. */
    flushRedis: infrastructure?.flushRedis ?? (() => redis.flushdb()),
    /** Somebody who comes through the one gateway, then the other. */
    httpClient,
    /** Sends a refresh token to the next gateway. */
    refresh: (token: string) =>
      httpClient().send("POST", "/auth/refresh", undefined, { cookie: `refreshToken=${token}` }),
    /** The status of GET /user/profile at the next gateway. */
    profile: async (token: string) => (await httpClient().get("/user/profile", token)).status,
    addUser: accounts.addUser,
    /** Signs in an account, a new one unless given. */
    signIn: async (given?: TestUser): Promise<Account> => {
      const { user, ...session } = await accounts.signIn(given);
      return { ...user, ...session };
    },
    sql: async <T>(text: string, values: unknown[] = []) => (await database.query(text, values)).rows as T[],
    databaseUrl,
    /** What every process has written so far. */
    output: () => [...gateways, ...services].map((process) => process.output()).join("\n"),
    /** Ends every process by force and starts them anew. */
    async restart(changes?: Record<string, string>) {
      await stop("SIGKILL");
      await start(changes);
    },
    /** Replaces a gateway and its services by those of a release, as an upgrade does. @returns the exit codes */
    async replace(i: 0 | 1, release: string) {
      const codes = [await gateways[i]?.end("SIGTERM"), await services[i]?.end("SIGTERM")];
      await startOne(i, {}, release);
      return codes;
    },
    /** The processes: the gateways, then the services. */
    processes: () => [...gateways, ...services],
    async close() {
      await stop("SIGTERM");
      await database.end();
      await redis.flushdb();
      redis.disconnect();
      await infrastructure?.close();
      await mail.close();
    },
  };
}

/** A Gatehouse process of its own. */
export type Process = {
  url: string;
  pid: number;
  /** What it has written so far, log and greeting. */
  output(): string;
  /** Ends it by a signal. @returns its exit code, or the signal that ended it */
  end(signal: NodeJS.Signals): Promise<number | NodeJS.Signals>;
};

/** Many processes are started: what one has compiled, the next need not. */
export const COMPILED = join(tmpdir(), "gatehouse-test-compiled");
const MAIN = "gateway/main.ts";
/** They are over before it pays to optimize the embedded database. */
export const SHORT_LIVED = "--liftoff-only";

/**
 * Starts `npm start`'s process on free ports and waits until it is ready.
 * @param ready what it writes then, with its address
 */
export async function startProcess(
  env: Record<string, string>,
  main = MAIN,
  ready = /events on (https?:\/\/127\.0\.0\.1:\d+)/,
): Promise<Process> {
  const child = spawn(process.execPath, [SHORT_LIVED, main], {
    env: { PATH: process.env.PATH, PORT: "0", GRPC_PORT: "0", NODE_COMPILE_CACHE: COMPILED, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  const isReady = new Promise<string>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (part: Buffer) => {
        output += part;
        const url = ready.exec(output)?.[1];
        if (url) resolve(url); // at once: what it says it is, it has to be by then
      });
    }
  });
  const ended = endOf(child);
  const url = await Promise.race([
    isReady,
    ended.then((code) => {
      throw new Error(`the process ended with ${code}: ${output}`);
    }),
  ]);
  return {
    url,
    pid: child.pid as number,
    output: () => output,
    end(signal) {
      child.kill(signal);
      return ended;
    },
  };
}

/** Starts the services, and a gateway with `gatewayEnv` as well that calls them. */
export async function startApart(
  env: Record<string, string>,
  gatewayEnv: Record<string, string> = {},
  root = process.cwd(),
) {
  const services = await startServices(env, root);
  const SERVICES_URL = `http://${services.url}`;
  return { services, gateway: await startProcess({ ...env, SERVICES_URL, ...gatewayEnv }, join(root, MAIN)) };
}

/** Starts services on their own. `url` is the address of their port. */
export const startServices = (env: Record<string, string>, root = process.cwd()) =>
  startProcess(env, join(root, "services/main.ts"), /gRPC-Web and Connect on (127\.0\.0\.1:\d+)/);

function endOf(child: ChildProcess): Promise<number | NodeJS.Signals> {
  return new Promise((resolve) => child.once("close", (code, signal) => resolve(code ?? (signal as NodeJS.Signals))));
}

/** Runs a script as npm does. */
export function runScript(script: string, args: string[], env: Record<string, string>, cwd = process.cwd()) {
  return new Promise<{ code: number; out: string }>((resolve) => {
    execFile(
      process.execPath,
      [SHORT_LIVED, join(process.cwd(), `scripts/${script}.ts`), ...args],
      { cwd, env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: COMPILED, ...env } },
      (error, stdout, stderr) => resolve({ code: Number(error?.code ?? 0), out: stdout + stderr }),
    );
  });
}
