import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createDatabase, runSql } from "../../support/database/databases.ts";
import { begin } from "../../support/database/transaction.ts";
import { runScript } from "../../support/processes/processes.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { until } from "../../support/until.ts";

describe.runIf(process.env.TEST_SERVERS)("npm run migrate", () => {
  test("reads .env, and explains errors in one sentence", async () => {
    const folder = temporaryFolder();
    const url = await createDatabase();
    for (const command of ["audit-verify", "admin unlock a@example.com", "admin grant-role web"]) {
      const [name = "", ...args] = command.split(" ");
      const early = await runScript(name, args, { DATABASE_URL: url, MIGRATE: "off" }, folder);
      expect(early).toMatchObject({
        code: 2,
        out: expect.stringMatching(/lacks (\d+) of \1 migrations/),
      });
    }
    writeFileSync(join(folder, ".env"), `DATABASE_URL=${url}\n`);
    const ofServices = {
      NODE_ENV: "production",
      INTERNAL_URL: "unix:/run/gatehouse/services.sock",
    };
    expect(await runScript("migrate", [], ofServices, folder)).toMatchObject({ code: 0 });
    expect(await runSql(url, "select 1 from users")).toEqual([]);
    const away = await runScript(
      "migrate",
      [],
      { DATABASE_URL: "postgres://unknown@127.0.0.1:1/x" },
      folder,
    );
    expect(away).toMatchObject({
      code: 2,
      out: expect.stringMatching(/^Failed: [^\n]+\n$/),
    });
    mkdirSync(join(folder, "sealed", ".env"), { recursive: true });
    const unread = await runScript(
      "audit-verify",
      [],
      { DATABASE_URL: url },
      join(folder, "sealed"),
    );
    expect(unread).toMatchObject({ code: 2, out: expect.stringContaining(".env can't be read") });
  });

  test("retries to add a month while a long read holds the audit log", async () => {
    const env = { DATABASE_URL: await createDatabase() };
    expect(await runScript("migrate", [], env)).toMatchObject({ code: 0 });
    const query = (sql: string) => runSql(env.DATABASE_URL, sql);
    const months = () =>
      query(
        "select inhrelid::regclass::text as name from pg_inherits where inhparent = 'audit_events'::regclass",
      );
    const before = await months();
    const last = before.findLast(({ name }) => /\d$/.test(name))?.name;
    await query(`drop table ${last}`);
    const reader = await begin(env.DATABASE_URL, "select 1 from audit_events limit 1", []);
    const migrated = runScript("migrate", [], env);
    await reader.toBeWaitedFor();
    const waiting = `select 1 from pg_locks l join pg_database d on d.oid = l.database
      where d.datname = current_database() and relation = 'audit_events'::regclass and not granted`;
    await until("the end of the first attempt", async () => (await query(waiting)).length === 0);
    await reader.commit();
    expect(await migrated).toMatchObject({ code: 0 });
    expect(await months()).toHaveLength(before.length);
  });
});
