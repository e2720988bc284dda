import { randomBytes, randomUUID } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import { startApp } from "../../support/app.ts";
import { setUpFactor } from "../../support/authenticator.ts";
import { createDatabase } from "../../support/databases.ts";
import { runScript } from "../../support/deployment.ts";
import { describeIf } from "../../support/skip-without.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { commitMeanwhile } from "../../support/transaction.ts";
import { until } from "../../support/until.ts";

describeIf(process.env.TEST_SERVERS, "npm run admin, beside the running service", async () => {
  const url = await createDatabase();
  const app = await startApp({ mode: "servers", env: { DATABASE_URL: url } });
  afterAll(() => app.close());
  const env = { DATABASE_URL: url, DATA_DIR: app.settings.DATA_DIR as string };
  const admin = (...args: string[]) => runScript("admin", args, env);
  const eventsOf = (id: string) =>
    app.sql<{ event: string; actor_id: null; user_agent: string; ip: string }>(
      "select event, actor_id, user_agent, ip from audit_events where user_id = ? and event like 'admin.%' order by id",
      [id],
    );

  test("promotes an account and records it", async () => {
    const { user, browser, accessToken } = await app.signIn();
    expect((await browser.get("/admin/users", accessToken)).status).toBe(403);
    expect(await admin("promote", user.email.toUpperCase())).toEqual({
      code: 0,
      out: expect.stringContaining("is not verified"),
    });
    expect((await browser.get("/admin/users", accessToken)).status).toBe(200);
    expect((await eventsOf(user.id)).at(-1)).toEqual({
      event: "admin.user_updated",
      actor_id: null,
      user_agent: expect.stringMatching(/^npm run admin, by ./),
      ip: "127.0.0.1",
    });
  });

  test("creates an administrator where there is no account, and shows a password once", async () => {
    const email = `${randomUUID()}@example.com`;
    const { code, out } = await admin("promote", email);
    expect(code).toBe(0);
    const password = /shown once: (\S{24})\n/.exec(out)?.[1];
    const { status, body } = await app.httpClient().post("/auth/login", { email, password });
    expect({ status, role: body.user.role }).toEqual({ status: 200, role: "admin" });
    const [made] = await app.sql("select event, user_agent, details from audit_events where user_id = ? order by id", [
      body.user.id,
    ]);
    expect(made).toEqual({
      event: "admin.user_updated",
      user_agent: expect.stringMatching(/^npm run admin, by \S/),
      details: { role: "admin" },
    });
    expect((await admin("promote", email)).out).not.toContain("password");
  });

  test("promotes an account that is created during the command, and shows no password", async () => {
    const user = await app.addVerifiedUser();
    const email = `${randomUUID()}@example.com`;
    const change = "update users set email = $1, canonical_email = $1 where id = $2";
    const promoted = await commitMeanwhile(url, change, [email, user.id], () => admin("promote", email));
    expect(promoted).toEqual({ code: 0, out: `${email} is an administrator now.\n` });
    expect(await app.sql("select role from users where id = ?", [user.id])).toEqual([{ role: "admin" }]);
  });

  test("unlocks accounts and ends sessions", async () => {
    const { user, browser, accessToken } = await app.signIn();
    for (let i = 0; i < 5; i++) {
      await app.httpClient().post("/auth/login", { email: user.email, password: "Wrong-1-guess" });
    }
    expect((await app.httpClient().post("/auth/login", user.credentials)).status).toBe(423);
    expect((await admin("unlock", user.email)).code).toBe(0);
    expect((await app.httpClient().post("/auth/login", user.credentials)).status).toBe(200);
    expect(await admin("end-sessions", user.email)).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^2 sessions/),
    });
    expect((await browser.get("/user/profile", accessToken)).status).toBe(401);
    expect((await eventsOf(user.id)).map(({ event }) => event)).toEqual([
      "admin.user_updated",
      "admin.sessions_revoked",
    ]);
  });

  test("removes the second factor of any user, and notifies by mail", async () => {
    const { user } = await setUpFactor(app, await app.addUser({ role: "admin" }));
    expect((await admin("disable-mfa", user.email)).code).toBe(0);
    expect((await app.httpClient().post("/auth/login", user.credentials)).body.requiresMfa).toBe(false);
    await app.mail.emailTo(user.email, /Two-factor sign-in is off/);
    expect(await eventsOf(user.id)).toMatchObject([{ event: "admin.user_updated", actor_id: null }]);
  });

  test("explains errors and usage", async () => {
    const unusual = [[], ["destroy", "x"], ["promote"], ["promote", "a@example.com", "b"]];
    const wrong: [string[], RegExp][] = [
      [["unlock", "unknown@example.com"], /No account/],
      [["grant-role", "x; drop table users"], /plain lower-case name/],
      [["promote", "not-an-address"], /e-mail/],
      ...unusual.map((args): [string[], RegExp] => [args, /npm run admin --/]),
    ];
    const answers = await Promise.all(wrong.map(([args]) => admin(...args)));
    expect(answers).toEqual(wrong.map(([, out]) => ({ code: 2, out: expect.stringMatching(out) })));
  });

  test("verifies the audit log against the head that was logged", async () => {
    const { user } = await app.signIn();
    await until("every event to be sealed", async () => {
      const [row] = await app.sql<{ n: number }>("select count(*)::int as n from audit_unsealed");
      return row?.n === 0;
    });
    const whole = await admin("verify-audit");
    expect(whole).toMatchObject({ code: 0, out: expect.stringContaining("The audit log is intact") });
    const head = /Head (\d+:[0-9a-f]{64})/.exec(whole.out)?.[1] ?? "";
    expect(await admin("verify-audit", "--head", head)).toMatchObject({ code: 0 });
    expect(
      await runScript("audit-verify", ["--head", head.replace(/.$/, (c) => (c === "0" ? "1" : "0"))], env),
    ).toMatchObject({ code: 1, out: expect.stringContaining("cut off or rewritten") });
    const [event] = await app.sql<{ id: string }>("select id from audit_events where user_id = ? limit 1", [user.id]);
    await app.sql("alter table audit_events disable trigger audit_append_only");
    await app.sql("update audit_events set ip = '10.1.1.1' where id = ?", [event?.id]);
    const { code, out } = await runScript("audit-verify", [], env);
    expect({ code, out }).toEqual({ code: 1, out: expect.stringContaining(`Event ${event?.id}`) });
    expect(out).toContain("was edited");
    const key = { ...env, SECRET_KEY: randomBytes(32).toString("base64") };
    expect((await runScript("audit-verify", [], key)).out).toContain("has no MAC of SECRET_KEY");
    const elsewhere = { ...env, DATA_DIR: temporaryFolder() };
    const missing = { code: 2, out: expect.stringContaining("SECRET_KEY must be that of the service") };
    expect(await runScript("audit-verify", [], elsewhere)).toEqual(missing);
  });
});

describe("npm run admin, on the embedded database", () => {
  test("works for a user id without a name, as in containers", async () => {
    const nameless = `
      import os from "node:os";
      import { syncBuiltinESMExports } from "node:module";
      os.userInfo = () => { throw new Error("uv_os_get_passwd returned ENOENT"); };
      syncBuiltinESMExports();`;
    const env = {
      DATABASE_URL: "memory:",
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(nameless)}`,
    };
    expect((await runScript("admin", ["promote", "root@example.com"], env)).out).toContain("shown once");
  });

  test("works while the service is stopped", async () => {
    const env = { DATA_DIR: temporaryFolder() };
    const email = `${randomUUID()}@example.com`;
    expect((await runScript("admin", ["promote", email], env)).out).toContain("shown once");
    expect((await runScript("admin", ["unlock", email], env)).code).toBe(0);
    expect(await runScript("audit-verify", [], env)).toMatchObject({
      code: 0,
      out: expect.stringContaining("2 not sealed yet"),
    });
  });
});
