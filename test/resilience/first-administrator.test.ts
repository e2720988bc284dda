import { describe, expect, test } from "vitest";
import { PASSWORD } from "../support/accounts.ts";
import { startApp, type TestApp } from "../support/app.ts";
import { freshStorage } from "../support/database/databases.ts";
import { withToken } from "../support/http/client.ts";
import { forTest } from "../support/suites.ts";

/** Starts the product on storage that later starts use too. */
const startOn = (env: Record<string, string>) =>
  startApp({ mode: env.DATABASE_URL ? "servers" : "embedded", env: { DATABASE_URL: "", ...env } });

describe("Start with ADMIN_EMAIL", () => {
  const own = { email: "root@example.com", password: "Other-person-1" };
  const asAdmin = { ADMIN_EMAIL: own.email, ADMIN_PASSWORD: PASSWORD };

  /** Registers an account, restarts with its address as ADMIN_EMAIL, and tries to sign in. */
  async function promote<T>(between: (app: TestApp, accessToken: string) => Promise<T>) {
    const env = await freshStorage();
    const before = await startOn({ ...env, ADMIN_EMAIL: "", ADMIN_PASSWORD: "" });
    await before.httpClient().post("/auth/register", { ...own, name: "Root", acceptTerms: true });
    const { accessToken } = (await before.login(own.email, own.password)).body;
    const made = await between(before, accessToken);
    await before.close();
    const after = await forTest(startOn({ ...env, ...asAdmin }));
    const session = await after.profileStatus(accessToken);
    const ownPassword = (await after.login(own.email, own.password)).status;
    const given = await after.login(own.email);
    return {
      made,
      app: after,
      statuses: { session, ownPassword, newPassword: given.status },
      admin: given.body,
    };
  }

  test("promotes a verified account and changes nothing else", async () => {
    const { statuses } = await promote(async (app) => {
      await app.verifyEmail((await app.mail.emailTo(own.email)).token);
    });
    expect(statuses).toEqual({ session: 200, ownPassword: 200, newPassword: 401 });
  });

  test("has no effect once there is an administrator: a demoted one stays demoted", async () => {
    const env = { ...(await freshStorage()), ...asAdmin };
    const first = await startOn(env);
    const { id } = (await first.login(own.email)).body.user;
    const other = await first.signInAdmin();
    const demotion = { role: "user", password: PASSWORD };
    expect((await other.put(`/admin/users/${id}`, demotion)).status).toBe(200);
    await first.close();
    const next = await forTest(startOn(env));
    expect((await next.login(own.email)).body.user.role).toBe("user");
  });

  test("takes over an account whose address was never verified, and removes its second factor", async () => {
    const { made, app, statuses, admin } = await promote(async (app, accessToken) => {
      const browser = app.httpClient();
      const newEmail = "other@example.com";
      await browser.post("/auth/setup-totp", undefined, accessToken);
      await browser.post("/user/change-email", { newEmail, password: own.password }, accessToken);
      await app.lock(own.email);
      return (await app.mail.emailTo(newEmail)).token;
    });
    expect(statuses).toEqual({ session: 401, ownPassword: 401, newPassword: 200 });
    expect(admin).toMatchObject({ requiresMfa: false, user: { role: "admin" } });
    const { get } = withToken(app.httpClient(), admin.accessToken);
    expect((await get("/user/profile")).body.emailVerified).toBe(true);
    expect((await app.verifyEmail(made)).status).toBe(400);
    const { items } = (await get("/admin/audit-logs?event=admin.user_updated")).body;
    expect(items[0].details).toEqual({ role: "admin", takenOver: true });
  });
});
