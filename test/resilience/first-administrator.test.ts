import { describe, expect, test } from "vitest";
import { freshStorage } from "../support/databases.ts";
import { startProcess } from "../support/deployment.ts";
import { createHttpClient } from "../support/http-client.ts";
import { folderMailbox } from "../support/mailbox.ts";
import { times } from "../support/until.ts";

describe("Start with ADMIN_EMAIL", () => {
  const own = { email: "root@example.com", password: "Other-person-1" };
  const password = "Correct-horse-1";
  const asAdmin = ({ email, password }: typeof own) => ({ ADMIN_EMAIL: email, ADMIN_PASSWORD: password });

  /** Registers an account, restarts with its address as ADMIN_EMAIL, and tries to sign in. */
  async function promote<T>(between: (dataDir: string, accessToken: string, url: string) => Promise<T>) {
    const env = await freshStorage();
    const before = await startProcess(env);
    await createHttpClient(before.url).post("/auth/register", { ...own, name: "Root", acceptTerms: true });
    const { accessToken } = (await createHttpClient(before.url).post("/auth/login", own)).body;
    const made = await between(env.DATA_DIR, accessToken, before.url);
    await before.end("SIGTERM");
    const given = { ...own, password };
    const after = await startProcess({ ...env, ...asAdmin(given) });
    const httpClient = createHttpClient(after.url);
    return {
      made,
      httpClient,
      token: (await httpClient.get("/user/profile", accessToken)).status,
      own: (await httpClient.post("/auth/login", own)).status,
      given: await httpClient.post("/auth/login", given),
      end: () => after.end("SIGTERM"),
    };
  }

  test("promotes a verified account and changes nothing else", async () => {
    const { token, own, given, end } = await promote(async (dataDir, _accessToken, url) => {
      const { token } = await folderMailbox(dataDir).emailTo("root@example.com");
      await createHttpClient(url).post("/auth/verify-email", { token });
    });
    expect([token, own, given.status]).toEqual([200, 200, 401]);
    await end();
  });

  test("has no effect once there is an administrator: one who was demoted stays demoted", async () => {
    const env = { ...(await freshStorage()), ...asAdmin({ ...own, password }) };
    const first = await startProcess(env);
    const browser = createHttpClient(first.url);
    const second = { email: "second@example.com", password };
    await browser.post("/auth/register", { ...second, name: "Bea", acceptTerms: true });
    const admin = (await browser.post("/auth/login", { ...own, password })).body;
    const { items } = (await browser.get("/admin/users?search=second@example.com", admin.accessToken)).body;
    await browser.put(`/admin/users/${items[0].id}`, { role: "admin" }, admin.accessToken);
    const other = (await browser.post("/auth/login", second)).body;
    const demoted = await browser.put(`/admin/users/${admin.user.id}`, { role: "user" }, other.accessToken);
    expect(demoted.status).toBe(200);
    await first.end("SIGTERM");
    const next = await startProcess(env);
    const { body } = await createHttpClient(next.url).post("/auth/login", { ...own, password });
    expect(body.user.role).toBe("user");
    await next.end("SIGTERM");
  });

  test("takes over an account whose address was never verified, second factor included", async () => {
    const { made, httpClient, token, own, given, end } = await promote(async (dataDir, accessToken, url) => {
      const browser = createHttpClient(url);
      const newEmail = "other@example.com";
      await browser.post("/auth/setup-totp", undefined, accessToken);
      await browser.post("/user/change-email", { newEmail, password: "Other-person-1" }, accessToken);
      const wrong = { email: "root@example.com", password: "Wrong-1-guess" };
      await Promise.all(times(5, () => createHttpClient(url).post("/auth/login", wrong))); // these lock the account
      return (await folderMailbox(dataDir).emailTo(newEmail)).token;
    });
    expect([token, own, given.status]).toEqual([401, 401, 200]);
    expect(given.body).toMatchObject({ requiresMfa: false, user: { role: "admin" } });
    expect((await httpClient.get("/user/profile", given.body.accessToken)).body.emailVerified).toBe(true);
    expect((await httpClient.post("/auth/verify-email", { token: made })).status).toBe(400);
    const { items } = (await httpClient.get("/admin/audit-logs?event=admin.user_updated", given.body.accessToken)).body;
    expect(items[0].details).toEqual({ role: "admin", takenOver: true });
    await end();
  });
});
