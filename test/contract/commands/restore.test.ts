import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startApp } from "../../support/app.ts";
import { createDatabase } from "../../support/databases.ts";
import { runScript } from "../../support/deployment.ts";
import { POSTGRES_BIN, postgresFolder, startPostgresServer } from "../../support/postgres-server.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { until } from "../../support/until.ts";

const commands = process.env.TEST_SERVERS && POSTGRES_BIN;
const ENDED = expect.stringMatching(/^\d+ sessions have ended/);
const keysOf = async (app: { url: string }) => (await fetch(`${app.url}/.well-known/jwks.json`)).text();

test.skipIf(!commands)("after-restore: a restored dump has its accounts and no valid token", async () => {
  const [url, restored] = [await createDatabase(), await createDatabase()];
  const before = await startApp({ mode: "servers", env: { DATABASE_URL: url } });
  const env = { DATABASE_URL: restored, DATA_DIR: before.settings.DATA_DIR as string };
  const { user, browser, accessToken } = await before.signIn(await before.addVerifiedUser());
  await before.httpClient().post("/auth/forgot-password", { email: user.email });
  const { token } = await before.mail.emailTo(user.email, /password/i);
  const keys = await keysOf(before);
  const dump = execFileSync(join(POSTGRES_BIN as string, "pg_dump"), ["--no-owner", url]);
  expect((await browser.post("/auth/logout", {}, accessToken)).status).toBeLessThan(300);
  await before.close();

  execFileSync(join(POSTGRES_BIN as string, "psql"), ["-q", "-v", "ON_ERROR_STOP=1", restored], { input: dump });
  const other = { ...env, SECRET_KEY: randomBytes(32).toString("base64") };
  expect(await runScript("admin", ["after-restore"], other)).toMatchObject({ code: 2 });
  expect(await runScript("admin", ["after-restore"], env)).toEqual({ code: 0, out: ENDED });
  const after = await startApp({ mode: "servers", env });
  try {
    expect(await keysOf(after)).not.toBe(keys);
    expect((await after.httpClient().get("/user/profile", accessToken)).status).toBe(401);
    const reset = { token, password: "Brand-new-2" };
    expect((await after.httpClient().post("/auth/reset-password", reset)).status).toBe(400);
    const login = await after.httpClient().post("/auth/login", user.credentials);
    expect(login.status).toBe(200);
    expect((await after.httpClient().get("/user/profile", login.body.accessToken)).status).toBe(200);
    expect(await runScript("audit-verify", [], env)).toMatchObject({ code: 0 });
    const [event] = await after.sql("select details from audit_events where event = 'admin.sessions_revoked'");
    expect(event).toMatchObject({ details: { restored: true } });
  } finally {
    await after.close();
  }
});

test.skipIf(!commands)(
  "after-restore: a restore to a point in time has all changes acknowledged before it",
  async () => {
    const [archive, backup] = [postgresFolder(), postgresFolder()];
    const primary = await startPostgresServer({ archive_mode: "on", archive_command: `cp %p ${archive}/%f` });
    onTestFinished(primary.close);
    const before = await startApp({ mode: "servers", env: { DATABASE_URL: primary.url } });
    const ask = async (what: string) =>
      (await before.sql<{ answer: string }>(`select ${what} as answer`))[0]?.answer ?? "";
    const keys = await keysOf(before);
    const { user, browser, accessToken } = await before.signIn(await before.addVerifiedUser());
    primary.run("pg_basebackup", ["-d", primary.url, "-D", backup, "-c", "fast"]);
    expect((await browser.put("/user/profile", { name: "Early" }, accessToken)).status).toBe(200);
    const moment = await ask("clock_timestamp()::text");
    expect((await browser.put("/user/profile", { name: "Late" }, accessToken)).status).toBe(200);
    const late = await before.addUser();
    expect((await browser.post("/auth/logout", {}, accessToken)).status).toBe(200);
    const segment = await ask("pg_walfile_name(pg_switch_wal())");
    await until("the archive", async () => (await ask("(select last_archived_wal from pg_stat_archiver)")) >= segment);
    await before.close();

    writeFileSync(join(backup, "recovery.signal"), "");
    const recovery = { recovery_target_time: moment, recovery_target_action: "promote" };
    const restored = await startPostgresServer({ ...recovery, restore_command: `cp ${archive}/%f %p` }, backup);
    onTestFinished(restored.close);
    const env = { DATABASE_URL: restored.url, DATA_DIR: before.settings.DATA_DIR as string };
    expect(await runScript("admin", ["after-restore"], env)).toEqual({ code: 0, out: ENDED });
    const after = await startApp({ mode: "servers", env });
    try {
      expect(await keysOf(after)).not.toBe(keys);
      expect((await after.httpClient().get("/user/profile", accessToken)).status).toBe(401);
      expect((await after.httpClient().post("/auth/login", late.credentials)).status).toBe(401);
      const { body } = await after.httpClient().post("/auth/login", user.credentials);
      expect((await after.httpClient().get("/user/profile", body.accessToken)).body).toMatchObject({ name: "Early" });
      expect(await runScript("audit-verify", [], env)).toMatchObject({ code: 0 });
    } finally {
      await after.close();
    }
  },
);

test("after-restore: works on a copy of the embedded database's folder", async () => {
  const env = { DATA_DIR: temporaryFolder() };
  const copy = { DATA_DIR: temporaryFolder() };
  expect((await runScript("admin", ["promote", "root@example.com"], env)).code).toBe(0);
  expect((await runScript("admin", ["after-restore"], env)).out).toContain("SECRET_KEY must be");
  cpSync(env.DATA_DIR, copy.DATA_DIR, { recursive: true });
  const SECRET_KEY = randomBytes(32).toString("base64");
  expect(await runScript("admin", ["after-restore"], { ...copy, SECRET_KEY })).toEqual({ code: 0, out: ENDED });
});
