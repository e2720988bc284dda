import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createKey, keyStatus } from "../../support/api-keys.ts";
import { startApp } from "../../support/app.ts";
import { createDatabase } from "../../support/database/databases.ts";
import {
  POSTGRES_BIN,
  postgresFolder,
  startPostgresServer,
} from "../../support/database/postgres-server.ts";
import { passkeyActions } from "../../support/passkeys.ts";
import { runScript } from "../../support/processes/processes.ts";
import { forTest } from "../../support/suites.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { until } from "../../support/until.ts";

const commands = process.env.TEST_SERVERS && POSTGRES_BIN;
const ENDED = expect.stringMatching(/^\d+ sessions have ended/);
const keysOf = async (app: { url: string }) =>
  (await fetch(`${app.url}/.well-known/jwks.json`)).text();

/**
 * Ends the sessions of a restored database, and starts the service: it has another key, and an
 * intact audit log.
 */
async function startRestored(env: Record<string, string>, keys: string, accessToken: string) {
  expect(await runScript("admin", ["after-restore"], env)).toEqual({ code: 0, out: ENDED });
  const app = await forTest(startApp({ mode: "servers", env }));
  expect(await keysOf(app)).not.toBe(keys);
  expect(await app.profileStatus(accessToken)).toBe(401);
  expect(await runScript("audit-verify", [], env)).toMatchObject({ code: 0 });
  return app;
}

test.skipIf(!commands)(
  "after-restore: a restored dump contains its accounts, and no token is valid",
  async () => {
    const [url, restored] = [await createDatabase(), await createDatabase()];
    const before = await startApp({ mode: "servers", env: { DATABASE_URL: url } });
    const env = { DATABASE_URL: restored, DATA_DIR: before.settings.DATA_DIR as string };
    const { user, post, accessToken } = await before.signIn(await before.addVerifiedUser());
    const token = await before.resetTokenFor(user.email);
    const keys = await keysOf(before);
    const dump = execFileSync(join(POSTGRES_BIN as string, "pg_dump"), ["--no-owner", url]);
    expect((await post("/auth/logout", {})).status).toBe(200);
    await before.close();

    execFileSync(join(POSTGRES_BIN as string, "psql"), ["-q", "-v", "ON_ERROR_STOP=1", restored], {
      input: dump,
    });
    const other = { ...env, SECRET_KEY: randomBytes(32).toString("base64") };
    expect(await runScript("admin", ["after-restore"], other)).toMatchObject({ code: 2 });
    const after = await startRestored(env, keys, accessToken);
    expect((await after.resetPassword(token)).status).toBe(400);
    expect(await (await after.signIn(user)).profileStatus()).toBe(200);
    const [event] = await after.sql(
      "select details from audit_events where event = 'admin.sessions_revoked'",
    );
    expect(event).toMatchObject({ details: { restored: true } });
  },
);

/** Tables by which a user signs in or is recognized: they are as they were in the backup. */
const KEPT = ["passkeys", "identities", "devices", "backup_codes"];

test.skipIf(!process.env.TEST_SERVERS)(
  "after-restore: ways in and known devices stay, mailed tokens end, and a completed ceremony stays completed",
  async () => {
    const env = { DATABASE_URL: await createDatabase(), DATA_DIR: temporaryFolder() };
    const before = await startApp({ mode: "servers", env });
    const passkeys = passkeyActions(before);
    const { authenticator, ...account } = await passkeys.addUser();
    const { user } = account;
    const { body } = await account.put("/user/second-factor", { required: true });
    await before.sql(
      "insert into identities (id, user_id, provider, issuer, subject, created_at) values (gen_random_uuid(), ?, 'google', 'https://a.example', 's', now())",
      [user.id],
    );
    await before.resetTokenFor(user.email);
    const used = authenticator.get(await passkeys.signInOptions());
    expect((await passkeys.verify(used)).status).toBe(200);
    const rowsAt = (app: typeof before) => (table: string) =>
      app.sql(`select * from ${table} where user_id = ? order by 1, 2`, [user.id]);
    const rows = await Promise.all(KEPT.map(rowsAt(before)));
    for (const [i, table] of KEPT.entries()) expect(rows[i]?.length, table).toBeGreaterThan(0);
    await before.close();

    expect(await runScript("admin", ["after-restore"], env)).toMatchObject({ code: 0 });
    const after = await forTest(startApp({ mode: "servers", env }));
    expect(await Promise.all(KEPT.map(rowsAt(after)))).toEqual(rows);
    expect(await rowsAt(after)("one_time_tokens")).toEqual([]);
    const restored = passkeyActions(after);
    expect(await restored.verify(used)).toMatchObject({ status: 401 }); // used before the backup
    expect((await restored.signIn(authenticator)).status).toBe(200);
    const { tempToken, mfaMethods } = (await after.login(user.email)).body;
    expect(mfaMethods).toEqual(["passkey", "backup-code"]);
    const backupCode = body.backupCodes[0];
    expect((await after.verifyMfa(tempToken, { backupCode })).status).toBe(200);
  },
);

test.skipIf(!commands)(
  "after-restore: a restore to a point in time contains all changes before it",
  async () => {
    const [archive, backup] = [postgresFolder(), postgresFolder()];
    const archiving = { archive_mode: "on", archive_command: `cp %p ${archive}/%f` };
    const primary = await forTest(startPostgresServer(archiving));
    const before = await startApp({ mode: "servers", env: { DATABASE_URL: primary.url } });
    const ask = async (what: string) =>
      (await before.sql<{ answer: string }>(`select ${what} as answer`))[0]?.answer ?? "";
    const keys = await keysOf(before);
    const { user, put, post, accessToken } = await before.signIn(await before.addVerifiedUser());
    primary.run("pg_basebackup", ["-d", primary.url, "-D", backup, "-c", "fast"]);
    expect((await put("/user/profile", { name: "Early" })).status).toBe(200);
    const moment = await ask("clock_timestamp()::text");
    expect((await put("/user/profile", { name: "Late" })).status).toBe(200);
    const late = await before.addUser();
    expect((await post("/auth/logout", {})).status).toBe(200);
    const segment = await ask("pg_walfile_name(pg_switch_wal())");
    await until(
      "the archive",
      async () => (await ask("(select last_archived_wal from pg_stat_archiver)")) >= segment,
    );
    await before.close();

    writeFileSync(join(backup, "recovery.signal"), "");
    const target = { recovery_target_time: moment, recovery_target_action: "promote" };
    const recovery = { ...target, restore_command: `cp ${archive}/%f %p` };
    const restored = await forTest(startPostgresServer(recovery, backup));
    const env = { DATABASE_URL: restored.url, DATA_DIR: before.settings.DATA_DIR as string };
    const after = await startRestored(env, keys, accessToken);
    expect((await after.login(late.email)).status).toBe(401);
    expect((await (await after.signIn(user)).get("/user/profile")).body).toMatchObject({
      name: "Early",
    });
  },
);

test.skipIf(!commands).each([
  { option: [], out: "and 1 API keys are revoked", status: 401 },
  { option: ["--keep-api-keys"], out: "and 0 API keys are revoked", status: 200 },
])("after-restore $option: an API key is $status afterwards", async ({ option, out, status }) => {
  const env = { DATABASE_URL: await createDatabase(), DATA_DIR: temporaryFolder() };
  const before = await startApp({ mode: "servers", env });
  const { key } = await createKey(await before.signIn());
  await before.close();
  const restored = await runScript("admin", ["after-restore", ...option], env);
  expect(restored).toEqual({ code: 0, out: expect.stringContaining(out) });
  const after = await forTest(startApp({ mode: "servers", env }));
  expect(await keyStatus(after, key)).toBe(status);
});

test("after-restore: works on a copy of the folder of the embedded database", async () => {
  const env = { DATA_DIR: temporaryFolder() };
  const copy = { DATA_DIR: temporaryFolder() };
  expect((await runScript("admin", ["promote", "root@example.com"], env)).code).toBe(0);
  expect((await runScript("admin", ["after-restore"], env)).out).toContain("SECRET_KEY must be");
  cpSync(env.DATA_DIR, copy.DATA_DIR, { recursive: true });
  const SECRET_KEY = randomBytes(32).toString("base64");
  expect(await runScript("admin", ["after-restore"], { ...copy, SECRET_KEY })).toEqual({
    code: 0,
    out: ENDED,
  });
});
