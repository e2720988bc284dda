import { randomBytes, randomInt, randomUUID } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { startSuiteApp } from "../support/app.ts";
import { createDatabase, runSql } from "../support/database/databases.ts";
import { begin } from "../support/database/transaction.ts";
import { postJson } from "../support/http/client.ts";
import { startProxy } from "../support/network/tcp-proxy.ts";
import { type Process, startProcess } from "../support/processes/processes.ts";
import { describeIf, forSuite, forTest } from "../support/suites.ts";
import { times } from "../support/tally.ts";
import { until } from "../support/until.ts";

const wrong = "Wrong-1-guess";
/** The smallest numbers of rounds and of killed processes. */
const [ROUNDS, KILLS] = process.env.TEST_FULL ? [100, 3] : [4, 1];
/** Limit of a guess, in ms. Guesses wait for those of a killed process. */
const GUESS_MS = 2_000;
const WAITING =
  "from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";

describeIf(process.env.TEST_SERVERS, "POST /auth/login", async () => {
  const secrets = { SECRET_KEY: randomBytes(32).toString("base64"), RATE_LIMITS: "off" };
  const DATABASE_URL = await createDatabase();
  const proxy = await forSuite(startProxy(DATABASE_URL));
  const app = await startSuiteApp({
    mode: "servers",
    env: { ...secrets, DATABASE_URL: proxy.url },
  });
  const start = () =>
    forTest(startProcess({ ...secrets, DATABASE_URL, PUBLIC_URL: "http://gatehouse.test" }));

  /**
   * Signs in.
   * @returns the status; 0 without a response
   */
  const login = (url: string, body: object) =>
    postJson(`${url}/auth/login`, body, undefined, AbortSignal.timeout(GUESS_MS)).then(
      ({ status }) => status,
      () => 0,
    );
  const events = async (id: string) =>
    (
      await runSql(
        DATABASE_URL,
        `select from audit_events where user_id = '${id}' and outcome = 'failure'`,
      )
    ).length;

  /** Blocks correct logins after the check of their passwords, until `interrupt` has ended them. */
  async function interruptLogins(
    url: string,
    user: { id: string; credentials: object },
    count: number,
    interrupt: () => void,
  ) {
    const holder = await begin(DATABASE_URL, "select from users where id = $1 for update", [
      user.id,
    ]);
    const answers = Promise.all(times(count, () => login(url, user.credentials)));
    await until(
      "the logins to wait",
      async () => (await runSql(DATABASE_URL, `select ${WAITING}`)).length === count,
    );
    interrupt();
    await runSql(DATABASE_URL, `select pg_terminate_backend(pid) ${WAITING}`);
    await holder.commit();
    return answers;
  }

  test("locks no account after correct passwords if PostgreSQL is unreachable for half a second", async () => {
    const user = await app.addUser();
    expect(await interruptLogins(app.url, user, 5, proxy.cut)).toEqual(times(5, () => 503));
    await wait(500);
    proxy.restore();
    await until(
      "PostgreSQL to be used again",
      async () => (await fetch(`${app.url}/health/ready`)).ok,
    );
    expect((await app.httpClient().post("/auth/login", user.credentials)).status).toBe(200);
    expect(await events(user.id)).toBe(0);
  });

  test("locks no account after correct passwords if a process is killed, even during other logins", async () => {
    const user = await app.addUser();
    const other = await start();
    expect(await interruptLogins(other.url, user, 4, () => other.end("SIGKILL"))).toEqual([
      0, 0, 0, 0,
    ]);
    const post = async (password = user.password) =>
      (await app.httpClient().post("/auth/login", { ...user.credentials, password })).status;
    for (const _ of times(2, Number)) {
      expect(await post()).toBe(200);
      app.clock.advance("20s");
    }
    for (const _ of times(4, Number)) expect(await post(wrong)).toBe(401);
    expect(await post()).toBe(200);
    expect(await events(user.id)).toBe(4);
  });

  test(`evaluates at most five guesses while processes are killed (rounds: ${ROUNDS})`, async () => {
    const servers = await Promise.all([start(), start()]);
    let [rounds, kills] = [0, 0];
    const play = async () => {
      for (; rounds < ROUNDS || kills < KILLS; rounds++) {
        const email = `${randomUUID()}@example.com`;
        const guesses = times(10, (i) =>
          login((servers[i % 2] as Process).url, { email, password: wrong }),
        );
        const evaluated = (await Promise.all(guesses)).filter((status) => status === 401).length;
        const [row] = await runSql(
          DATABASE_URL,
          `select failed from attempts where subject = '${email}'`,
        );
        expect(row?.failed ?? 0).toBeGreaterThanOrEqual(evaluated);
        expect(row?.failed ?? 0).toBeLessThanOrEqual(5);
      }
    };
    const kill = async () => {
      for (; rounds < ROUNDS || kills < KILLS; kills++) {
        await wait(randomInt(200));
        const index = randomInt(2);
        await servers[index]?.end("SIGKILL");
        servers[index] = await start();
      }
    };
    await Promise.all([...times(10, play), kill()]);
  });
});
