import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { freshEmail } from "../../support/accounts.ts";
import { startSuiteApp } from "../../support/app.ts";
import { createMigratedDatabase, freshStorage } from "../../support/database/databases.ts";
import { commitMeanwhile } from "../../support/database/transaction.ts";
import { runScript } from "../../support/processes/processes.ts";
import { describeIf } from "../../support/suites.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { until } from "../../support/until.ts";

/** The event of a change by the command. */
const by = {
  actor_id: null,
  user_agent: expect.stringMatching(/^npm run admin, by ./),
  ip: "127.0.0.1",
};
const UPDATE = { event: "admin.user_updated", ...by };

describeIf(process.env.TEST_SERVERS, "npm run admin, while the service runs", async () => {
  const url = await createMigratedDatabase();
  const app = await startSuiteApp({ mode: "servers", env: { DATABASE_URL: url } });
  const env = { DATABASE_URL: url, DATA_DIR: app.settings.DATA_DIR as string };
  const admin = (...args: string[]) => runScript("admin", args, env);
  const eventsOf = (id: string) =>
    app.sql<{ event: string }>(
      `select event, actor_id, user_agent, ip, details from audit_events where user_id = ? and event like 'admin.%'
       order by id`,
      [id],
    );

  test("promotes an account and records it", async () => {
    const { user, get } = await app.signIn();
    expect((await get("/admin/users")).status).toBe(403);
    const unverified = { code: 0, out: expect.stringContaining("is not verified") };
    expect(await admin("promote", user.email.toUpperCase())).toEqual(unverified);
    expect((await get("/admin/users")).status).toBe(200);
    expect(await eventsOf(user.id)).toEqual([
      {
        ...UPDATE,
        details: {
          fields: ["role"],
          role: "admin",
          changes: { role: { from: "user", to: "admin" } },
        },
      },
    ]);
  });

  test("notifies the user and all administrators of a promotion by e-mail", async () => {
    const administrator = await app.addUser({ role: "admin" });
    const user = await app.addVerifiedUser();
    expect((await admin("promote", user.email)).code).toBe(0);
    expect((await app.mail.emailTo(user.email, /Your role/)).text).toContain("now: administrator.");
    const created = freshEmail();
    expect((await admin("promote", created)).code).toBe(0);
    for (const address of [user.email, created]) {
      const isAbout = ({ text }: { text?: string | undefined }) => text?.includes(address);
      const about = await until(`the notice about ${address}`, async () =>
        (await app.mail.emailsTo(administrator.email)).find(isAbout),
      );
      expect(about.text).toContain("An operator of this service");
    }
  });

  test("creates an administrator for an unknown address, whose password is shown once", async () => {
    const email = freshEmail();
    const { code, out } = await admin("promote", email);
    expect(code).toBe(0);
    const { status, body } = await app.login(email, /shown once: (\S{24})\n/.exec(out)?.[1]);
    expect({ status, role: body.user.role }).toEqual({ status: 200, role: "admin" });
    expect(await eventsOf(body.user.id)).toEqual([{ ...UPDATE, details: { role: "admin" } }]);
    expect((await admin("promote", email)).out).not.toContain("password");
  });

  test("promotes an account that is registered at the same time, without printing a password", async () => {
    const user = await app.addVerifiedUser();
    const email = freshEmail();
    const change = "update users set email = $1, canonical_email = $1 where id = $2";
    const promoted = await commitMeanwhile(url, change, [email, user.id], () =>
      admin("promote", email),
    );
    expect(promoted).toEqual({ code: 0, out: `${email} is now an administrator.\n` });
    expect(await app.sql("select role from users where id = ?", [user.id])).toEqual([
      { role: "admin" },
    ]);
  });

  test("unlocks accounts, ends sessions, and records both", async () => {
    const account = await app.signIn();
    const { id, email } = account.user;
    await app.lock(email);
    expect((await app.login(email)).status).toBe(423);
    expect((await admin("unlock", email)).code).toBe(0);
    expect((await app.login(email)).status).toBe(200);
    expect(await admin("end-sessions", email)).toEqual({
      code: 0,
      out: expect.stringMatching(/^2 sessions/),
    });
    expect(await account.profileStatus()).toBe(401);
    const events = ["admin.user_updated", "admin.sessions_revoked"];
    expect((await eventsOf(id)).map(({ event }) => event)).toEqual(events);
  });

  test("removes the second factor of an administrator, and notifies them", async () => {
    const { user } = await app.setUpFactor(await app.addUser({ role: "admin" }));
    expect((await admin("disable-mfa", user.email)).code).toBe(0);
    expect((await app.login(user.email)).body.requiresMfa).toBe(false);
    await app.mail.emailTo(user.email, /Two-factor authentication is off/);
    expect(await eventsOf(user.id)).toMatchObject([
      { event: "admin.user_updated", actor_id: null },
    ]);
  });

  const WRONG = [
    { args: ["unlock", "unknown@example.com"], says: /No account/ },
    { args: ["grant-role", "x; drop table users"], says: /plain lower-case name/ },
    { args: ["promote", "not-an-address"], says: /e-mail/ },
    { args: [], says: /npm run admin --/ },
    { args: ["destroy", "x"], says: /npm run admin --/ },
    { args: ["promote"], says: /npm run admin --/ },
    { args: ["promote", "a@example.com", "b"], says: /npm run admin --/ },
  ];
  test.concurrent.for(WRONG)(
    "explains what is wrong with the arguments $args",
    async ({ args, says }) => {
      expect(await admin(...args)).toEqual({ code: 2, out: expect.stringMatching(says) });
    },
  );

  test("verifies the audit log against a logged head", async () => {
    const { user } = await app.signIn();
    const unsealed = () => app.sql("select 1 from audit_unsealed");
    await until("every event to be sealed", async () => (await unsealed()).length === 0);
    const whole = await admin("verify-audit");
    expect(whole).toMatchObject({
      code: 0,
      out: expect.stringContaining("The audit log is intact"),
    });
    expect(whole.out).toMatch(/Without --head: .*\n.*does not prove/);
    const head = /Head (\d+:[0-9a-f]{64})/.exec(whole.out)?.[1] ?? "";
    const known = { code: 0, out: expect.stringContaining("With --head: ") };
    expect(await admin("verify-audit", "--head", head)).toEqual(known);
    const verify = (changes = {}) => runScript("audit-verify", [], { ...env, ...changes });
    const forged = head.replace(/.$/, (c) => (c === "0" ? "1" : "0"));
    const rewritten = { code: 1, out: expect.stringContaining("cut off or rewritten") };
    expect(await admin("verify-audit", "--head", forged)).toEqual(rewritten);
    const [event] = await app.sql<{ id: string }>(
      "select id from audit_events where user_id = ? limit 1",
      [user.id],
    );
    await app.sql("alter table audit_events disable trigger audit_append_only");
    await app.sql("update audit_events set ip = '10.1.1.1' where id = ?", [event?.id]);
    expect(await verify()).toEqual({
      code: 1,
      out: expect.stringMatching(`Event ${event?.id}.* was edited`),
    });
    const otherKey = { SECRET_KEY: randomBytes(32).toString("base64") };
    expect((await verify(otherKey)).out).toContain("has no MAC of SECRET_KEY");
    const missing = {
      code: 2,
      out: expect.stringContaining("SECRET_KEY must be that of the service"),
    };
    expect(await verify({ DATA_DIR: temporaryFolder() })).toEqual(missing);
  });
});

describe("npm run admin, while the service is stopped", () => {
  test("runs with a user id without a name, as in containers", async () => {
    const nameless = `
      import os from "node:os";
      import { syncBuiltinESMExports } from "node:module";
      os.userInfo = () => { throw new Error("uv_os_get_passwd returned ENOENT"); };
      syncBuiltinESMExports();`;
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(nameless)}`;
    const promoted = runScript("admin", ["promote", "root@example.com"], {
      ...(await freshStorage()),
      NODE_OPTIONS,
    });
    expect((await promoted).out).toContain("shown once");
  });

  test("promotes, unlocks and verifies on the embedded database", async () => {
    const env = { DATA_DIR: temporaryFolder() };
    const email = freshEmail();
    expect((await runScript("admin", ["promote", email], env)).out).toContain("shown once");
    expect((await runScript("admin", ["unlock", email], env)).code).toBe(0);
    const verified = await runScript("audit-verify", [], env);
    expect(verified).toEqual({ code: 0, out: expect.stringContaining("2 not sealed yet") });
  });
});
