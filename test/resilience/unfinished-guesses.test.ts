import { randomBytes } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { TestUser } from "../support/accounts.ts";
import { startApp, type TestApp } from "../support/app.ts";
import { createDatabase } from "../support/databases.ts";
import { startProcess } from "../support/deployment.ts";
import { createHttpClient } from "../support/http-client.ts";
import { startProxy } from "../support/proxy.ts";
import { times, until } from "../support/until.ts";

const WAITING = "from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";

describe.runIf(process.env.TEST_SERVERS)("POST /auth/login", () => {
  const secrets = { SECRET_KEY: randomBytes(32).toString("base64"), RATE_LIMITS: "off" };
  let url = "";
  let [app, proxy, database] = [] as unknown as [TestApp, Awaited<ReturnType<typeof startProxy>>, pg.Pool];
  beforeAll(async () => {
    url = await createDatabase("guesses");
    database = new pg.Pool({ connectionString: url });
    const { hostname: host, port } = new URL(url);
    proxy = await startProxy({ host, port: Number(port || 5432) });
    const DATABASE_URL = Object.assign(new URL(url), { hostname: "127.0.0.1", port: `${proxy.port}` }).href;
    app = await startApp({ mode: "servers", env: { ...secrets, DATABASE_URL } });
  });
  afterAll(() => Promise.all([app.close(), proxy.close(), database.end()]));

  const failures = async (id: string) =>
    (await database.query("select from audit_events where user_id = $1 and outcome = 'failure'", [id])).rowCount;

  /** Holds correct logins once their passwords are checked, until `strike` has ended them. */
  async function strikeLogins(door: string, user: TestUser, count: number, strike: () => void) {
    const holder = await database.connect();
    await holder.query(`begin; select from users where id = '${user.id}' for update`);
    const answers = Promise.all(
      times(count, async () => {
        const answer = createHttpClient(door).post("/auth/login", user.credentials);
        return (await answer.catch(() => undefined))?.status;
      }),
    );
    await until("the logins to wait", async () => (await database.query(`select ${WAITING}`)).rowCount === count);
    strike();
    await database.query(`select pg_terminate_backend(pid) ${WAITING}`);
    await holder.query("rollback");
    holder.release();
    return answers;
  }

  test("locks no account over correct passwords when PostgreSQL is gone for half a second", async () => {
    const user = await app.addUser();
    expect(await strikeLogins(app.url, user, 5, proxy.cut)).toEqual(times(5, () => 503));
    await wait(500);
    proxy.restore();
    await until("PostgreSQL to be used again", async () => (await fetch(`${app.url}/health/ready`)).ok);
    expect((await app.httpClient().post("/auth/login", user.credentials)).status).toBe(200);
    expect(await failures(user.id)).toBe(0);
  });

  test("locks no account over correct passwords when a process is killed, even while others log in", async () => {
    const user = await app.addUser();
    const other = await startProcess({ ...secrets, DATABASE_URL: url });
    expect(await strikeLogins(other.url, user, 4, () => other.end("SIGKILL"))).toEqual(times(4, () => undefined));
    const post = async (password = user.password) =>
      (await app.httpClient().post("/auth/login", { ...user.credentials, password })).status;
    for (const _ of times(2, Number)) {
      expect(await post()).toBe(200);
      app.clock.advance("20s");
    }
    for (const _ of times(4, Number)) expect(await post("Wrong-1-guess")).toBe(401);
    expect(await post()).toBe(200);
    expect(await failures(user.id)).toBe(4);
  });
});
