import { setTimeout as wait } from "node:timers/promises";
import { decodeJwt } from "jose";
import { describe, expect, test } from "vitest";
import { AdminService } from "../../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { NEW_PASSWORD, newAccount } from "../../support/accounts.ts";
import { startSuiteApp, type TestApp } from "../../support/app.ts";
import { invalid, refusal } from "../../support/http/responses.ts";
import { until } from "../../support/until.ts";

/**
 * A MaxMind database: 81.2.69.0/24 is in London, United Kingdom; 89.160.20.0/24 is in Sweden,
 * without a city.
 */
const PLACES = "test/contract/auth/places.mmdb";
const COMMON = ["P@ssw0rd", "Password1!", "Summer2024!", "!Qw3rty99", "W3lc0me-1"];

/** Advances the clock, and waits until the cleanup job has deleted expired counters. */
async function clearing(app: TestApp, advance: "61m" | "23h"): Promise<void> {
  const old =
    "insert into attempts (kind, subject, reserved_at) values ('password', 'old', '2000-01-01')";
  await app.sql(`${old} on conflict do nothing`);
  app.clock.advance(advance); // after the insertion: the job may run at once, and then not for an hour
  const left = () => app.sql("select 1 from attempts where subject = 'old'");
  await until("the counters to be cleared", async () => (await left()).length === 0);
}

describe("Settings PASSWORD_EXPIRY=refuse, REQUIRE_VERIFIED_EMAIL, GEOIP_DB, PASSWORD_BLOCKLIST", async () => {
  const strict = {
    PASSWORD_EXPIRY: "refuse",
    REQUIRE_VERIFIED_EMAIL: "true",
    PASSWORD_BLOCKLIST: "on",
  };
  const app = await startSuiteApp({ env: { ...strict, GEOIP_DB: PLACES } });

  test.each(COMMON)("PASSWORD_BLOCKLIST=on: rejects the common password %s", async (password) => {
    const answer = await app.httpClient().post("/auth/register", newAccount({ password }));
    expect(answer).toMatchObject(invalid("password"));
  });

  test("POST /auth/login: returns 403 for a correct password of an unverified address, 401 for a wrong one", async () => {
    const { id, email } = await app.addUser();
    expect(await app.login(email)).toMatchObject(refusal(403, "EMAIL_NOT_VERIFIED"));
    expect((await app.guess(email)).status).toBe(401);
    const failures = await app.auditOf(id, "auth.login_failed");
    expect(failures.map(({ details }) => details)).toEqual([{}, { reason: "EMAIL_NOT_VERIFIED" }]);
  });

  test("GET /admin/audit-logs: shows the location of an event, over gRPC too", async () => {
    const admin = await app.signInAdmin(await app.addVerifiedUser({ role: "admin" }));
    const user = await app.addVerifiedUser();
    await app.httpClient("81.2.69.142").post("/auth/login", user.credentials);
    const { body } = await admin.get(`/admin/audit-logs?userId=${user.id}&event=auth.login`);
    expect(body.items).toMatchObject([{ ip: "81.2.69.142", location: "London, United Kingdom" }]);
    const { items } = await app
      .grpc(AdminService)
      .listAuditLogs({ userId: user.id, event: "auth.login" }, admin);
    expect(items).toMatchObject([{ location: "London, United Kingdom" }]);
    const registered = `/admin/audit-logs?userId=${user.id}&event=auth.register`;
    expect((await admin.get(registered)).body.items[0]).not.toHaveProperty("location");
  });

  test("GET /user/sessions: shows the location of a session, and its new location after a refresh", async () => {
    const user = await app.addVerifiedUser();
    const london = app.httpClient("81.2.69.142");
    const { body } = await london.post("/auth/login", user.credentials);
    const list = async (token: string) =>
      (await app.httpClient().get("/user/sessions", token)).body[0];
    expect(await list(body.accessToken)).toMatchObject({
      ip: "81.2.69.142",
      location: "London, United Kingdom",
    });
    const moved = async (token: string, address: string) =>
      (await app.refresh(token, { "x-forwarded-for": address })).body;
    const sweden = await moved(body.refreshToken, "89.160.20.112");
    expect(await list(sweden.accessToken)).toMatchObject({
      ip: "89.160.20.112",
      location: "Sweden",
    });
    const nowhere = await moved(sweden.refreshToken, "2001:db8::1");
    const session = await list(nowhere.accessToken);
    expect(session.ip).toBe("2001:db8::1");
    expect(session).not.toHaveProperty("location");
  });

  test("POST /auth/login: returns 403 for an expired password, and mails a token to set a new one", async () => {
    const { id, email, password: old } = await app.addVerifiedUser();
    app.clock.advance("90d");
    const expired = { status: 403, body: { code: "PASSWORD_EXPIRED", error: "Forbidden" } };
    expect(await app.login(email)).toMatchObject(expired);
    expect(await app.sql("select id from sessions where user_id = ?", [id])).toEqual([]);
    const failed = { outcome: "failure", details: { reason: "PASSWORD_EXPIRED" } };
    expect(await app.auditOf(id, "auth.login_failed")).toMatchObject([failed]);
    const { token } = await app.mail.emailTo(email, /Reset/);
    expect(await app.resetPassword(token, old)).toMatchObject(invalid("password"));
    expect((await app.resetPassword(token)).status).toBe(200);
    expect((await app.login(email, NEW_PASSWORD)).status).toBe(200);
  });

  test("the cleanup job deletes ended sessions, expired tokens and counters", async () => {
    const [idle, out, open] = [
      await app.addVerifiedUser(),
      await app.addVerifiedUser(),
      await app.addVerifiedUser(),
    ];
    await app.signIn(idle);
    app.clock.advance("6d");
    await (await app.signIn(out)).post("/auth/logout");
    const kept = await app.signIn(open);
    await app.guess("unknown@example.com");
    await app.addUser(); // its verification token expires
    app.clock.advance("25h");
    const count = async (sql: string, values: unknown[]) =>
      (await app.sql<{ n: number }>(`select count(*)::int as n from ${sql}`, values))[0]?.n;
    await until("the sessions to be cleared", async () => {
      const left = await count("sessions where user_id in (?, ?)", [idle.id, out.id]);
      const tokens = await count("one_time_tokens where expires_at < ?", [app.clock.now()]);
      const counters = await count("attempts where subject = ?", ["unknown@example.com"]);
      if (left === 0 && tokens === 0 && counters === 0) return true;
      await wait(1_500);
      app.clock.advance("1h"); // a row that is locked during a run is left to the next one
      return false;
    });
    expect((await kept.browser.post("/auth/refresh")).status).toBe(200);
    expect(await count("sessions where user_id = ?", [open.id])).toBe(1);
  });
});

describe("Lifetime settings", async () => {
  const ofTokens = {
    SESSION_MAX_AGE: "1h",
    REFRESH_TOKEN_TTL: "40m",
    ACCESS_TOKEN_TTL: "30m",
    REFRESH_GRACE: "0",
  };
  const app = await startSuiteApp({
    env: { ...ofTokens, LOCKOUT_DURATION: "1d", LOCKOUT_RESET: "1d", PASSWORD_MAX_AGE: "0" },
  });

  test("POST /auth/refresh: without a grace period, no token is accepted twice", async () => {
    const { browser } = await app.signIn();
    let replaced: string | undefined;
    for (let i = 0; i < 20; i++) {
      replaced = browser.cookies.get("refreshToken");
      expect((await browser.post("/auth/refresh")).status).toBe(200);
    }
    expect((await app.refresh(replaced)).status).toBe(401);
    expect((await browser.post("/auth/refresh")).status).toBe(401);
  });

  test("SESSION_MAX_AGE: a session and its tokens end at this age", async () => {
    const user = await app.addUser();
    const { browser, accessToken, refreshToken } = await app.signIn(
      await app.addUser({ role: "admin" }),
    );
    const { iat: start = 0 } = decodeJwt(refreshToken);
    const end = (token: string) => (decodeJwt(token).exp ?? 0) - start;
    const impersonate = async (token: string) =>
      (await browser.post(`/admin/impersonate/${user.id}`, {}, token)).body.accessToken;
    expect([end(refreshToken), end(accessToken)]).toEqual([2_400, 1_800]);
    const { iat = 0, exp } = decodeJwt(await impersonate(accessToken));
    expect(exp).toBe(iat + 900); // 15 minutes, however long other tokens live
    app.clock.advance("30m");
    expect((await browser.post("/auth/refresh")).status).toBe(200);
    app.clock.advance("20m");
    const { body } = await browser.post("/auth/refresh");
    const tokens = [body.refreshToken, body.accessToken, await impersonate(body.accessToken)];
    expect(tokens.map(end)).toEqual([3_600, 3_600, 3_600]);
    app.clock.advance("10m");
    for (const token of tokens) expect(await app.profileStatus(token)).toBe(401);
    expect((await browser.post("/auth/refresh")).status).toBe(401);
  });

  test("LOCKOUT_DURATION: an account stays locked for this time, even if counters are cleaned up in the meantime", async () => {
    const { email } = await app.addUser();
    await app.lock(email);
    await clearing(app, "23h");
    expect((await app.login(email)).status).toBe(423);
    app.clock.advance("1h");
    expect((await app.login(email)).status).toBe(200);
  });

  test("LOCKOUT_RESET: failures count for this time, even if counters are cleaned up in the meantime", async () => {
    const { email } = await app.addUser();
    for (let i = 0; i < 4; i++) await app.guess(email);
    await clearing(app, "61m");
    for (const status of [401, 423]) expect((await app.guess(email)).status).toBe(status);
  });

  test("PASSWORD_MAX_AGE=0: passwords do not expire", async () => {
    const { email } = await app.addUser();
    app.clock.advance("365d");
    const { body } = await app.login(email);
    expect(body).not.toHaveProperty("passwordExpired");
    const profile = await app.httpClient().get("/user/profile", body.accessToken);
    expect(profile.body).not.toHaveProperty("passwordExpiresAt");
  });
});
