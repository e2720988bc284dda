import { randomInt } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Simulator, startProviderSimulator } from "../../scripts/simulators/simulator.ts";
import { runScript } from "../support/deployment.ts";
import type { HttpResponse } from "../support/http-client.ts";
import { hasInfrastructure } from "../support/infrastructure.ts";
import { repetitions } from "../support/repeat.ts";
import { type Account, type Deployment, startDeployment } from "../support/replicas.ts";
import { tally, times } from "../support/until.ts";

const PASSWORD = "Correct-horse-1";
const AT_ONCE = 32;

describe.skipIf(!hasInfrastructure)("Two gateways and two service processes", () => {
  let all: Deployment;
  let provider: Simulator;
  beforeAll(async () => {
    provider = await startProviderSimulator({ dialect: "openai" });
    all = await startDeployment({ LOCKOUT_THRESHOLD: "1000", ...provider.env });
  });
  afterAll(async () => {
    await all.close();
    await provider.close();
  });

  test("run every operation concurrently on the same few users without an internal error", async () => {
    const admin = await all.signIn();
    await all.sql("update users set role = 'admin' where id = $1", [admin.id]);
    const accounts = await Promise.all(times(2, () => all.signIn()));
    const answers: HttpResponse[] = [];
    let left = repetitions(20) * AT_ONCE;
    await Promise.all(
      times(AT_ONCE, async () => {
        while (left-- > 0) answers.push(await any(operations)(all, any(accounts), admin));
      }),
    );
    const failed = answers.filter(({ status }) => status >= 500).map(({ status, body }) => [status, body]);
    expect(failed).toEqual([]);
    expect(tally(answers, ({ status }) => status)[200]).toBeGreaterThan(answers.length / 3);
    const [stat] = await all.sql("select deadlocks::int from pg_stat_database where datname = current_database()");
    expect(stat).toEqual({ deadlocks: 0 });
    const env = { DATABASE_URL: all.databaseUrl, SECRET_KEY: all.secretKey };
    expect((await runScript("audit-verify", [], env)).out).toContain("The audit log is intact");
  });
});

type Request = (all: Deployment, account: Account, admin: Account) => Promise<HttpResponse>;

/** An operation of a user, who signs in again if the session has ended. */
const own =
  (operation: (account: Account) => Promise<HttpResponse>): Request =>
  async (_all, account) => {
    const answer = await operation(account);
    if (answer.status !== 401) return answer;
    const again = await account.browser.post("/auth/login", account.credentials);
    if (again.status === 200) account.accessToken = again.body.accessToken;
    return again;
  };

const chat = { provider: "provider-a", messages: [{ role: "user", content: "Hello!" }] };

const administer = (operation: (admin: Account, id: string) => Promise<HttpResponse>): Request => {
  return (_all, { id }, admin) => operation(admin, id);
};

const operations: Request[] = [
  own(({ browser, accessToken }) => browser.get("/user/export", accessToken)),
  own(({ browser, accessToken }) => browser.put("/user/profile", { name: `Ann ${randomInt(9)}` }, accessToken)),
  own(({ browser }) => browser.post("/auth/refresh")),
  own(({ browser, accessToken }) => browser.post("/auth/logout", undefined, accessToken)),
  own(({ browser, accessToken }) => browser.post("/auth/setup-totp", { password: PASSWORD }, accessToken)),
  own(({ browser, accessToken }) => browser.post("/user/delete-account", {}, accessToken)),
  own(({ browser, accessToken }) => {
    const newEmail = `${randomInt(1e9)}@example.com`;
    return browser.post("/user/change-email", { newEmail, password: PASSWORD }, accessToken);
  }),
  own(({ browser, accessToken }) => browser.delete("/user/sessions", accessToken)),
  own(({ browser, accessToken }) => browser.post("/ai/chat", chat, accessToken)),
  (all, { credentials }) => all.httpClient().post("/auth/login", credentials),
  (all, { email }) => all.httpClient().post("/auth/login", { email, password: "Wrong-1-guess" }),
  (all, { email }) => all.httpClient().post("/auth/forgot-password", { email }),
  (all, { email }) => all.httpClient().post("/auth/resend-verification", { email }),
  administer(({ browser, accessToken }, id) => browser.post(`/admin/impersonate/${id}`, {}, accessToken)),
  administer(({ browser, accessToken }, id) => browser.delete(`/admin/users/${id}/sessions`, accessToken)),
  administer(({ browser, accessToken }, id) => browser.put(`/admin/users/${id}`, { name: "Bea" }, accessToken)),
  administer(({ browser, accessToken }, id) => browser.put(`/admin/users/${id}`, { locked: false }, accessToken)),
  administer(({ browser, accessToken }) => browser.get("/admin/audit-logs?limit=100", accessToken)),
];

const any = <T>(among: readonly T[]): T => among[randomInt(among.length)] as T;
