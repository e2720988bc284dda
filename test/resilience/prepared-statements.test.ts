import { expect, test } from "vitest";
import { newAccount } from "../support/accounts.ts";
import { startApp } from "../support/app.ts";
import { runSql } from "../support/database/databases.ts";
import { forTest } from "../support/suites.ts";
import { tally, times } from "../support/tally.ts";

/** More than the connections of a process, so that each of them is used. */
const CALLS = 30;

/** What makes the statements that connections have prepared unusable. */
const changes = [
  { what: "a longer column", sql: "alter table users alter column name type varchar(400)" },
  { what: "a column without a length", sql: "alter table users alter column email type text" },
  {
    what: "two columns at once",
    sql: "alter table users alter column name type text, alter column password_hash type varchar(900)",
  },
  { what: "statements that are gone", sql: "deallocate all" },
  { what: "connections that were reset", sql: "discard all" },
];

test.runIf(process.env.TEST_SERVERS).each(changes)(
  "Prepared statements: no request fails after $what",
  async ({ sql }) => {
    const app = await forTest(startApp({ mode: "servers", env: { RATE_LIMITS: "off" } }));
    const account = await app.signIn();
    let { refreshToken } = account;
    const onAllConnections = (work: () => Promise<unknown>) => Promise.all(times(CALLS, work));
    const traffic = async () => {
      const requests = [
        () => account.browser.get("/user/profile", account.accessToken),
        () => account.browser.get("/user/sessions", account.accessToken),
        () => app.httpClient().post("/auth/register", newAccount()),
        () => app.httpClient().post("/auth/login", account.user.credentials),
      ];
      const answers = await Promise.all(times(CALLS, (i) => requests[i % requests.length]?.()));
      const refreshed = await app.refresh(refreshToken);
      ({ refreshToken } = refreshed.body);
      return tally([...answers, refreshed], (answer) => String(answer?.status));
    };
    const served = await traffic();
    expect(Object.keys(served)).toEqual(["200", "201"]);
    if (sql.startsWith("alter")) await app.sql(sql);
    else await onAllConnections(() => app.sql(sql));
    expect(await traffic()).toEqual(served);
    expect(await traffic()).toEqual(served);
  },
);

/** Makes every change of a user fail as a statement that is gone does. */
const GONE = `
  create function fail_as_gone() returns trigger language plpgsql as
    $$ begin raise exception 'prepared statement does not exist' using errcode = '26000'; end $$;
  create trigger gone before insert or update on users for each row execute function fail_as_gone()`;

test.runIf(process.env.TEST_SERVERS)(
  "Prepared statements: a request is 503 if a second execution does not help, in a transaction or not",
  async () => {
    const app = await forTest(startApp({ mode: "servers" }));
    const { put } = await app.signIn();
    await runSql(app.settings.DATABASE_URL as string, GONE);
    for (const answer of [
      await app.httpClient().post("/auth/register", newAccount()),
      await put("/user/profile", { name: "Another" }),
    ]) {
      expect(answer).toMatchObject({ status: 503, body: { code: "UNAVAILABLE" } });
      expect(answer.headers.get("retry-after")).toBe("2");
    }
    expect(app.logs.filter((line) => /"level":50|database unavailable/.test(line))).toEqual([]);
  },
);
