import { describe, expect, test } from "vitest";
import { startApp, type TestApp } from "../support/app.ts";
import { forTest } from "../support/closing.ts";
import { freshStorage } from "../support/databases.ts";

/** Starts the product on storage that later starts use too. */
const startOn = (env: Record<string, string>) =>
  startApp({ mode: env.DATABASE_URL ? "servers" : "embedded", env: { DATABASE_URL: "", ...env } });

describe("Start with ADMIN_EMAIL", () => {
  const own = { email: "root@example.com", password: "Other-person-1" };
  const given = { ...own, password: "Correct-horse-1" };
  const asAdmin = { ADMIN_EMAIL: given.email, ADMIN_PASSWORD: given.password };

  /** Registers an account, restarts with its address as ADMIN_EMAIL, and tries to sign in. */
  async function promote<T>(between: (app: TestApp, accessToken: string) => Promise<T>) {
    const env = await freshStorage();
    const before = await startOn({ ...env, ADMIN_EMAIL: "", ADMIN_PASSWORD: "" });
    await before.httpClient().post("/auth/register", { ...own, name: "Root", acceptTerms: true });
    const { accessToken } = (await before.httpClient().post("/auth/login", own)).body;
    const made = await between(before, accessToken);
    await before.close();
    const after = await forTest(startOn({ ...env, ...asAdmin }));
    const httpClient = after.httpClient();
    return {
      made,
      httpClient,
      token: (await httpClient.get("/user/profile", accessToken)).status,
      own: (await httpClient.post("/auth/login", own)).status,
      given: await httpClient.post("/auth/login", given),
    };
  }

  test("promotes a verified account and changes nothing else", async () => {
    const { token, own, given } = await promote(async (app) => {
      const { token } = await app.mail.emailTo("root@example.com");
      await app.httpClient().post("/auth/verify-email", { token });
    });
    expect([token, own, given.status]).toEqual([200, 200, 401]);
  });

  test("has no effect once there is an administrator: one who was demoted stays demoted", async () => {
    const env = { ...(await freshStorage()), ...asAdmin };
    const first = await startOn(env);
    const admin = (await first.httpClient().post("/auth/login", given)).body;
    const other = await first.signIn(await first.addUser({ role: "admin" }));
    const demoted = await other.browser.put(`/admin/users/${admin.user.id}`, { role: "user" }, other.accessToken);
    expect(demoted.status).toBe(200);
    await first.close();
    const next = await forTest(startOn(env));
    expect((await next.httpClient().post("/auth/login", given)).body.user.role).toBe("user");
  });

  test("takes over an account whose address was never verified, second factor included", async () => {
    const { made, httpClient, token, own, given } = await promote(async (app, accessToken) => {
      const browser = app.httpClient();
      const newEmail = "other@example.com";
      await browser.post("/auth/setup-totp", undefined, accessToken);
      await browser.post("/user/change-email", { newEmail, password: "Other-person-1" }, accessToken);
      await app.lock("root@example.com");
      return (await app.mail.emailTo(newEmail)).token;
    });
    expect([token, own, given.status]).toEqual([401, 401, 200]);
    expect(given.body).toMatchObject({ requiresMfa: false, user: { role: "admin" } });
    expect((await httpClient.get("/user/profile", given.body.accessToken)).body.emailVerified).toBe(true);
    expect((await httpClient.post("/auth/verify-email", { token: made })).status).toBe(400);
    const { items } = (await httpClient.get("/admin/audit-logs?event=admin.user_updated", given.body.accessToken)).body;
    expect(items[0].details).toEqual({ role: "admin", takenOver: true });
  });
});
