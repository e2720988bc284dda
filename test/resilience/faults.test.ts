import { execFile } from "node:child_process";
import { randomBytes, randomInt } from "node:crypto";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { promisify } from "node:util";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { signInAt } from "../support/accounts.ts";
import { type Daemon, startDaemon } from "../support/daemon.ts";
import { type Process, runScript, startProcess } from "../support/deployment.ts";
import { createHistory, runClients } from "../support/history.ts";
import { contradictions } from "../support/history-checks.ts";
import { freePort } from "../support/metrics.ts";
import { POSTGRES_BIN, startPostgresServer } from "../support/postgres-server.ts";
import { startProxy } from "../support/proxy.ts";
import { isMissing } from "../support/skip-without.ts";
import { type SmtpResponse, startSmtpServer } from "../support/smtp-server.ts";
import { tally, times, until } from "../support/until.ts";

/** Every fault once in an ordinary run; `npm run faults` goes on for an hour. */
const MINUTES = Number(process.env.FAULTS_MINUTES ?? 0);
const CLIENTS = Number(process.env.FAULTS_CLIENTS ?? 8);
/** How long a fault lasts in an ordinary run, in ms. */
const FAULT_MS = 1_000;

describe.skipIf(!POSTGRES_BIN || isMissing("redis-server"))("Faults", () => {
  const ports: string[] = [];
  const replicas: Process[] = [];
  let postgres: Awaited<ReturnType<typeof startPostgresServer>>;
  let link: Awaited<ReturnType<typeof startProxy>>;
  let smtp: Awaited<ReturnType<typeof startSmtpServer>>;
  let redis: Daemon;
  let redisPort: string;
  let database: pg.Pool;
  let env: Record<string, string>;
  const startRedis = async () => {
    const serves = () => redisAnswers(redisPort);
    redis = await startDaemon("redis-server", ["--port", redisPort, "--bind", "127.0.0.1", "--save", ""], serves);
  };
  const startReplica = async (i: number, changes: Record<string, string> = {}) => {
    replicas[i] = await startProcess({ ...env, PORT: ports[i] as string, ...changes });
  };
  beforeAll(async () => {
    [ports[0], ports[1], redisPort] = await Promise.all([freePort(), freePort(), freePort()]);
    [postgres, smtp] = await Promise.all([startPostgresServer(), startSmtpServer(), startRedis()]);
    link = await startProxy({ host: "127.0.0.1", port: postgres.port });
    database = new pg.Pool({ connectionString: postgres.url, max: 2 });
    database.on("error", () => {}); // its server is killed
    env = {
      DATABASE_URL: `postgres://postgres@127.0.0.1:${link.port}/postgres`,
      REDIS_URL: `redis://127.0.0.1:${redisPort}`,
      SMTP_URL: smtp.url,
      MAIL_RETRY_BASE: "100ms",
      SECRET_KEY: randomBytes(32).toString("base64"),
      DATA_DIR: mkdtempSync(join(tmpdir(), "gatehouse-faults-")),
      PUBLIC_URL: "http://gatehouse.test",
      TRUST_PROXY: "127.0.0.1",
      LOCKOUT_THRESHOLD: "1000",
    };
    for (const i of [0, 1]) await startReplica(i);
  });
  afterAll(async () => {
    await Promise.all(replicas.map((replica) => replica.end("SIGKILL")));
    await database?.end();
    await link?.close();
    await Promise.all([redis?.close(), postgres?.close(), smtp?.close()]);
  });

  const replica = () => replicas[randomInt(2)] as Process;
  const smtpAnswers = async (answer: SmtpResponse) => {
    const { data } = smtp.responses;
    smtp.responses.data = () => answer;
    await wait(FAULT_MS);
    smtp.responses.data = data;
  };
  const during = async (begin: () => unknown, end: () => unknown) => {
    await begin();
    await wait(FAULT_MS);
    await end();
  };
  const faults: Record<string, () => Promise<unknown>> = {
    "PostgreSQL is killed": () => postgres.kill(),
    "PostgreSQL is frozen": () => during(postgres.freeze, postgres.thaw),
    "PostgreSQL is cut off": () => during(link.cut, link.restore),
    "PostgreSQL commits and its replies are lost": () => during(link.cutAfterCommit, link.restore),
    "Redis is killed": () => redis.close().then(startRedis),
    "Redis is frozen": () =>
      during(
        () => redis.kill("SIGSTOP"),
        () => redis.kill("SIGCONT"),
      ),
    "Redis is flushed": () => promisify(execFile)("redis-cli", ["-p", redisPort, "flushall"]),
    "SMTP puts off": () => smtpAnswers({ code: 451, text: "later" }),
    "SMTP never answers": () => smtpAnswers("hang"),
    "a replica is killed": async () => {
      const i = randomInt(2);
      await replicas[i]?.end("SIGKILL");
      await startReplica(i);
    },
    "a replica is frozen": async () => {
      const { pid } = replica();
      await during(
        () => process.kill(pid, "SIGSTOP"),
        () => process.kill(pid, "SIGCONT"),
      );
    },
  };

  /** The newest token that was mailed to an address, if it comes soon. */
  const emailToken = (email: string, subject: RegExp) =>
    until(
      "a mail",
      () => {
        const letter = smtp.received.findLast(
          ({ to, raw }) => to === email && subject.test(/^Subject: .*/m.exec(raw)?.[0] ?? ""),
        );
        return /#token=(\S+)/.exec(letter?.raw.replaceAll("=\r\n", "").replaceAll("=3D", "=") ?? "")?.[1];
      },
      5_000,
    ).catch(() => undefined);
  const ready = () =>
    until(
      "both replicas to be ready",
      async () => {
        const answers = await Promise.all(
          ports.map((port) => fetch(`http://127.0.0.1:${port}/health/ready`).catch(() => undefined)),
        );
        return answers.every((answer) => answer?.ok);
      },
      60_000,
    );

  test(
    "lose no acknowledged effect, let no one-time token work twice and no revoked session work again",
    async () => {
      const history = createHistory();
      const urls = ports.map((port) => `http://127.0.0.1:${port}`);
      const clients = Promise.all(times(CLIENTS, () => runClients(history, { urls, emailToken })));
      const endsAt = performance.now() + MINUTES * 60_000;
      do {
        for (const [name, fault] of Object.entries(faults).sort(() => Math.random() - 0.5)) {
          const before = history.entries.length;
          await fault();
          await ready();
          await until(
            "clients to go on",
            () => history.entries.slice(before).some(({ outcome }) => outcome === "ok"),
            60_000,
          );
          const outcomes = tally(history.entries.slice(before), ({ outcome }) => outcome);
          process.stdout.write(`${name}: ${JSON.stringify(outcomes)}\n`);
        }
      } while (performance.now() < endsAt);
      history.isOver = true;
      await clients;
      const sql = async <T>(text: string, values: unknown[] = []) => (await database.query(text, values)).rows as T[];
      const waiting = "select from emails where status in ('queued', 'sending')";
      await until("the mails", async () => (await sql(waiting)).length === 0, 90_000);
      for (const [i, each] of replicas.entries()) {
        expect(await each.end("SIGTERM")).toBe(0);
        await startReplica(i, { RATE_LIMITS: "off" });
      }
      const mailed = new Set(smtp.received.map(({ to }) => to));
      const check = () => contradictions(history, urls[0] as string, sql, mailed);
      expect(await check()).toEqual([]);
      const outcomes = tally(history.entries, ({ outcome }) => outcome);
      expect([outcomes.ok, outcomes.unknown].every((count) => Number(count) > 20)).toBe(true);
      expect(await runScript("audit-verify", [], env)).toMatchObject({ code: 0 });
      // The checker sees what it is for: a lost effect, and a session that works again.
      await sql("update users set name = 'Dora'");
      history.ended.push(await signInAt(urls[0] as string));
      expect((await check()).join()).toMatch(/has a name that it should not have.*a revoked session works/s);
    },
    (MINUTES + 5) * 60_000,
  );
});

async function redisAnswers(port: string): Promise<boolean> {
  const socket = (await import("node:net")).connect(Number(port), "127.0.0.1");
  return new Promise((resolve) => {
    socket.on("connect", () => socket.write("PING\r\n")).on("error", () => resolve(false));
    socket.on("data", (part) => resolve(String(part).startsWith("+PONG")) ?? socket.destroy());
  });
}
