import { describe, expect, test } from "vitest";
import { openStore } from "../../services/store/open-store.ts";
import { startApp } from "../support/app.ts";
import { createDatabase, runSql } from "../support/database/databases.ts";
import { openQuietStore } from "../support/database/store.ts";
import { captureLog } from "../support/log.ts";
import { forTest } from "../support/suites.ts";
import { tallyGuesses, times } from "../support/tally.ts";

const SETTINGS = [
  "datestyle = 'German, DMY'",
  "timezone = 'Asia/Kathmandu'",
  "intervalstyle = 'postgres_verbose'",
  "bytea_output = 'escape'",
  "default_transaction_isolation = 'serializable'",
  "standard_conforming_strings = off",
  "lock_timeout = '300ms'",
  "idle_in_transaction_session_timeout = '1s'",
];

describe.runIf(process.env.TEST_SERVERS)("PostgreSQL with custom settings", () => {
  test("serves logins, profiles and lockouts", async () => {
    const DATABASE_URL = await createDatabase();
    const name = new URL(DATABASE_URL).pathname.slice(1);
    await runSql(
      DATABASE_URL,
      SETTINGS.map((setting) => `alter database ${name} set ${setting}`).join(";"),
    );
    const app = await forTest(startApp({ mode: "servers", env: { DATABASE_URL } }));
    const { user, get } = await app.signIn();
    const { body } = await get("/user/profile");
    expect(Math.abs(Date.parse(body.createdAt) - Date.now())).toBeLessThan(60_000);
    const answers = await Promise.all(times(20, () => app.guess(user.email)));
    expect(tallyGuesses(answers)).toEqual({ evaluated: 5, refused: 15 });
    expect((await app.guess(user.email)).body.message).toMatch(/again in 15 minutes/);
    expect(await app.sql(String.raw`select '\d' = E'\\d' as plain`)).toEqual([{ plain: true }]);
  });

  test("reports settings that lose data, and options of the URL without effect", async () => {
    const url = await createDatabase();
    const { lines, log } = captureLog({ base: null, timestamp: false });
    const withOptions = `${url}?search_path=app&options=-c%20synchronous_commit%3Doff`;
    await (await openStore({ kind: "postgres", url: withOptions }, log)).close();
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      {
        level: 40,
        parameters: ["search_path"],
        msg: "DATABASE_URL has parameters that are ignored",
      },
      {
        level: 40,
        msg: "synchronous_commit is off: a crash of PostgreSQL loses acknowledged changes",
      },
    ]);
  });

  test("is rejected if its encoding cannot store every character", async () => {
    const url = new URL(await createDatabase());
    const name = `${url.pathname.slice(1)}_latin`;
    await runSql(
      url.href,
      `create database ${name} encoding 'LATIN1' locale 'C' template template0`,
    );
    url.pathname = name;
    await expect(openQuietStore(url.href)).rejects.toThrow(
      "DATABASE_URL can't be used: the database has encoding LATIN1. Create a database with encoding",
    );
  });
});
