import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { newAccount } from "../support/accounts.ts";
import { startApp } from "../support/app.ts";
import { createDatabase } from "../support/database/databases.ts";
import { openQuietStore } from "../support/database/store.ts";
import { begin } from "../support/database/transaction.ts";
import { startProxy } from "../support/network/tcp-proxy.ts";
import { forTest } from "../support/suites.ts";
import { tally, times } from "../support/tally.ts";
import { until } from "../support/until.ts";
import { fillDisk, mountDisk, unmountDisk } from "./disk.ts";

const account = newAccount();

/** An embedded PostgreSQL that loses stack with each failure does not survive as many. */
const FAILURES = 6_000;

test("PGlite: works after thousands of failed statements", async () => {
  const store = await forTest(openQuietStore());
  const statement = { name: "fail", text: "select 1 / $1::int" };
  const fail = () => store.query(statement, [0]).catch((error: Error) => error.message);
  const messages = new Set<unknown>();
  for (const _ of times(FAILURES, Number)) messages.add(await fail());
  expect([...messages]).toEqual(["division by zero"]);
  await store.ping();
});

test.runIf(process.env.TEST_SERVERS)(
  "POST /auth/register: an address in use causes no database error, so no log contains its hash",
  async () => {
    let replies = "";
    const proxy = startProxy(await createDatabase(), (part) => {
      replies += part.toString("latin1");
    });
    const { url: DATABASE_URL } = await forTest(proxy);
    const app = await forTest(startApp({ mode: "servers", env: { DATABASE_URL } }));
    const answers = await Promise.all(
      times(5, () => app.httpClient().post("/auth/register", account)),
    );
    expect(tally(answers, ({ status }) => status)).toEqual({ 201: 1, 409: 4 });
    expect(replies).toContain("canonical_email"); // a column of every reply about accounts
    expect(replies).not.toContain("users_canonical_email_unique");
  },
  60_000,
);

/** More than the connections of a process. */
const CALLS = 12;
/**
 * The limit of a wait for a lock, including the delays of a busy machine. It is below the statement
 * timeout.
 */
const SOON_MS = 10_000;

test.runIf(process.env.TEST_SERVERS)(
  "Store: a locked table leaves connections for other statements",
  async () => {
    const DATABASE_URL = await createDatabase();
    const app = await forTest(startApp({ mode: "servers", env: { DATABASE_URL } }));
    const { browser, accessToken } = await app.signIn();
    const other = await begin(DATABASE_URL, "lock table emails in access exclusive mode", []);
    const register = () => app.httpClient().post("/auth/register", newAccount());
    const started = performance.now();
    const answers = await Promise.all(times(CALLS, register));
    expect(performance.now() - started).toBeLessThan(SOON_MS);
    expect(tally(answers, (a) => `${a.status} ${a.headers.get("retry-after")}`)).toEqual({
      "503 2": CALLS,
    });
    expect((await browser.get("/user/profile", accessToken)).status).toBe(200);
    await other.commit();
    expect((await register()).status).toBe(201);
  },
  60_000,
);

test("GET /health: reports a read-only database, as after a failover, as unavailable, with one log line per change", async () => {
  const app = await forTest(startApp({ mode: "embedded" })); // one connection, which has the setting
  await app.sql("set default_transaction_read_only = on");
  const logged = () =>
    app.logs.map((line) => JSON.parse(line).msg).filter((msg) => /^database/.test(msg));
  for (const _ of times(4, Number)) {
    const answer = await app.httpClient().post("/auth/register", newAccount());
    expect(answer).toMatchObject({ status: 503, body: { code: "UNAVAILABLE" } });
    expect(answer.headers.get("retry-after")).toBe("2");
  }
  expect((await app.httpClient().get("/health/ready")).status).toBe(503);
  expect(logged()).toEqual(["database unavailable"]);
  await app.sql("set default_transaction_read_only = off");
  await until(
    "readiness",
    async () => (await app.httpClient().get("/health/ready")).status === 200,
  );
  expect(await app.httpClient().post("/auth/register", account)).toMatchObject({ status: 201 });
  await until("the log line", () => logged().length > 1);
  expect(logged()).toEqual(["database unavailable", "database available again"]);
});

const disk = mountDisk("80m");

describe.skipIf(!disk)("PGlite on a full disk", () => {
  afterAll(() => unmountDisk(disk as string));

  test("is not ready, and is ready again once there is space", async () => {
    const path = disk as string;
    const app = await forTest(
      startApp({ mode: "embedded", env: { DATABASE_URL: "", DATA_DIR: join(path, "data") } }),
    );
    const readiness = async () => (await app.httpClient().get("/health/ready")).status;
    await until("readiness", async () => (await readiness()) === 200);
    const clear = fillDisk(path);
    await until("readiness to go", async () => (await readiness()) === 503);
    expect((await app.httpClient().get("/health/live")).status).toBe(200);
    clear();
    await until("readiness again", async () => (await readiness()) === 200);
  });
});
