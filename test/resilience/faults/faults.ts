import { randomInt } from "node:crypto";
import { readFileSync, rmSync } from "node:fs";
import { resolve } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { runSql } from "../../support/database/databases.ts";
import { postgresFolder, startPostgresServer } from "../../support/database/postgres-server.ts";
import { startRedis } from "../../support/database/redis.ts";
import { smtpMailbox } from "../../support/mail/mailbox.ts";
import type { SmtpResponse } from "../../support/mail/smtp-server.ts";
import { freePort } from "../../support/network/sockets.ts";
import { startProxy } from "../../support/network/tcp-proxy.ts";
import { type Process, sharedVariables, startProcess } from "../../support/processes/processes.ts";
import { until } from "../../support/until.ts";
import { fillDisk, mountDisk, unmountDisk } from "../disk.ts";

const TLS = resolve("test/support/network/tls/ours");
/** How long a fault lasts, in ms. */
const FAULT_MS = 1_000;
const PARTS = ["mail", "rcpt", "data"] as const;
type Part = (typeof PARTS)[number];
/** Replies that are none of SMTP. */
const NONSENSE: SmtpResponse[] = [
  { code: 999, text: "what" },
  { code: 7, text: "\0\u00ff\r\n" },
  { code: -1, text: "x".repeat(100_000) },
];

/**
 * Two replicas on their own servers, and the faults that may hit them.
 * @param freezeMs how long a replica is frozen
 */
export async function startFaultyDeployment(freezeMs = FAULT_MS) {
  const disk = mountDisk("400m");
  const startPostgres = (folder = postgresFolder(disk)) =>
    startPostgresServer({ max_wal_size: "64MB" }, folder);
  const tls = { cert: readFileSync(`${TLS}.pem`), key: readFileSync(`${TLS}.key`) };
  let [postgres, redis, smtp] = await Promise.all([
    startPostgres(),
    startRedis(await freePort()),
    smtpMailbox(0, tls),
  ]);
  const links = {
    PostgreSQL: await startProxy(postgres.url),
    Redis: await startProxy(`redis://127.0.0.1:${redis.port}`),
    SMTP: await startProxy(smtp.url),
  };
  const env: Record<string, string> = {
    DATABASE_URL: links.PostgreSQL.url,
    REDIS_URL: links.Redis.url,
    SMTP_URL: links.SMTP.url,
    NODE_EXTRA_CA_CERTS: `${TLS}.pem`,
    MAIL_RETRY_BASE: "100ms",
    ...sharedVariables(),
    LOCKOUT_THRESHOLD: "1000",
    NODE_OPTIONS: `--import=${resolve("test/resilience/preloads/moved-clock.ts")}`,
  };
  const sql = <T>(text: string, values?: unknown[]) =>
    runSql<T>(links.PostgreSQL.url, text, values);
  const ports = [await freePort(), await freePort()];
  const replicas: Process[] = [];
  const startReplica = async (i: number, changes: Record<string, string> = {}) => {
    replicas[i] = await startProcess({ ...env, PORT: ports[i] as string, ...changes });
  };
  for (const i of [0, 1]) await startReplica(i);

  const during = async (begin: () => unknown, end: () => unknown, ms = FAULT_MS) => {
    await begin();
    await wait(ms);
    await end();
  };
  const replica = () => replicas[randomInt(2)] as Process;
  const freeze = ({ kill }: Pick<Process, "kill">, ms?: number) =>
    during(
      () => kill("SIGSTOP"),
      () => kill("SIGCONT"),
      ms,
    );
  const smtpAnswers = async (part: Part, answer: SmtpResponse) => {
    const usual = { ...smtp.responses };
    smtp.responses[part] = () => answer;
    await wait(FAULT_MS);
    Object.assign(smtp.responses, usual);
  };
  const faults: Record<string, () => Promise<unknown>> = {
    "PostgreSQL is killed": () => postgres.kill(),
    "PostgreSQL is frozen": () => during(postgres.freeze, postgres.thaw),
    "PostgreSQL commits and its replies are lost": () =>
      during(links.PostgreSQL.cutAfterCommit, links.PostgreSQL.restore),
    async "PostgreSQL fails over to a streaming replica"() {
      const [former, folder] = [postgres, postgresFolder(disk)];
      former.run("pg_basebackup", ["-d", former.url, "-D", folder, "-c", "fast", "-R"]);
      postgres = await startPostgres(folder);
      await sql("alter system set synchronous_standby_names = '*'"); // what is acknowledged is on both
      await sql("select pg_reload_conf()");
      const inSync = "select from pg_stat_replication where sync_state = 'sync'";
      await until("the replica to follow", async () => (await sql(inSync)).length > 0);
      await former.close();
      postgres.run("pg_ctl", ["promote", "-D", folder]);
      links.PostgreSQL.moveTo(postgres.port);
      rmSync(former.folder, { recursive: true });
    },
    async "Redis is killed"() {
      await redis.close();
      redis = await startRedis(redis.port);
    },
    "Redis is frozen": () => freeze(redis),
    "Redis is flushed": () => redis.ask("flushall"),
    async "Redis fails over to its replica"() {
      const former = redis;
      redis = await startRedis(await freePort());
      await redis.ask("replicaof", "127.0.0.1", former.port);
      await until("the replica to follow", async () =>
        (await redis.ask("role")).includes("connected"),
      );
      await former.close();
      await redis.ask("replicaof", "no", "one");
      links.Redis.moveTo(Number(redis.port));
    },
    "SMTP puts senders off": () => smtpAnswers("mail", { code: 421, text: ["busy", "later"] }),
    "SMTP puts recipients off": () => smtpAnswers("rcpt", { code: 450, text: "later" }),
    "SMTP puts letters off": () => smtpAnswers("data", { code: 451, text: "later" }),
    "SMTP refuses recipients": () => smtpAnswers("rcpt", { code: 550, text: "No such user" }),
    "SMTP refuses letters": () =>
      smtpAnswers("data", { code: 554, text: ["Looks like", "advertising"] }),
    async "SMTP never answers a letter"() {
      await smtpAnswers("data", "hang");
      await during(links.SMTP.cut, links.SMTP.restore, 0); // or each e-mail would wait for ten minutes (RFC 5321)
    },
    "SMTP answers nonsense": () =>
      smtpAnswers(PARTS[randomInt(3)] as Part, NONSENSE[randomInt(3)] as SmtpResponse),
    "SMTP ends TLS in the middle": () => during(links.SMTP.truncate, links.SMTP.restore),
    async "a replica is killed"() {
      const i = randomInt(2);
      await replicas[i]?.end("SIGKILL");
      await startReplica(i);
    },
    "a replica is frozen": () => freeze(replica(), freezeMs),
    async "the clock of a replica moves by an hour"() {
      const { kill } = replica();
      for (const _ of ["forward", "back", "right"]) {
        kill("SIGUSR2");
        await wait(FAULT_MS);
      }
    },
  };
  for (const [name, link] of Object.entries(links)) {
    faults[`${name} is cut off`] = () => during(link.cut, link.restore);
    faults[`${name} says nothing`] = () => during(link.silence, link.restore);
  }
  if (disk)
    faults["PostgreSQL is filled up"] = async () => {
      const clear = fillDisk(disk);
      await wait(FAULT_MS);
      clear();
      await postgres.kill(); // it has ended if its log had no space
    };
  return {
    faults,
    env,
    smtp,
    replicas,
    startReplica,
    sql,
    urls: ports.map((port) => `http://127.0.0.1:${port}`),
    async close() {
      await Promise.all(replicas.map((each) => each.end("SIGKILL")));
      await Promise.all(
        [...Object.values(links), redis, postgres, smtp].map((each) => each.close()),
      );
      if (disk) unmountDisk(disk);
    },
  };
}
