import { decodeJwt } from "jose";
import { expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { WRONG_CODE, WRONG_PASSWORD } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { withToken } from "../../support/http/client.ts";
import { invalid, refusal } from "../../support/http/responses.ts";
import { statusesOf } from "../../support/tally.ts";

const app = await testApp();
const REQUIRED = refusal(403, "REAUTHENTICATION_REQUIRED");

/** A session whose sign-in is 20 minutes old, with a fresh access token. */
async function oldSession(given?: Parameters<typeof app.signIn>[0]) {
  const { user, browser } = await app.signIn(given);
  app.clock.advance("20m");
  const { accessToken } = (await browser.post("/auth/refresh")).body;
  return { user, browser, ...withToken(browser, accessToken) };
}

test("POST /auth/confirm: lets an old session do what requires a recent sign-in, for 15 minutes", async () => {
  const { user, browser, post } = await oldSession();
  expect(await post("/auth/setup-totp")).toMatchObject(REQUIRED);
  const confirmed = await post("/auth/confirm", { password: user.password });
  expect(confirmed.status).toBe(200);
  const until = new Date(confirmed.body.confirmedUntil).getTime();
  const minutes = (until - app.clock.now().getTime()) / 60_000;
  expect(Math.ceil(minutes)).toBe(15);
  expect((await post("/auth/setup-totp")).status).toBe(200);
  app.clock.advance("15m");
  app.clock.advance("1s");
  const later = withToken(browser, (await browser.post("/auth/refresh")).body.accessToken);
  expect(await later.post("/auth/setup-totp")).toMatchObject(REQUIRED);
});

test("POST /auth/confirm: confirms only its own session, and is audited", async () => {
  const first = await oldSession();
  const second = await oldSession(first.user);
  expect((await second.post("/auth/confirm", { password: first.user.password })).status).toBe(200);
  const [other] = [
    withToken(first.browser, (await first.browser.post("/auth/refresh")).body.accessToken),
  ];
  expect(await other.post("/auth/setup-totp")).toMatchObject(REQUIRED);
  const events = await app.auditOf(first.user.id, "auth.confirmed");
  expect(events).toMatchObject([{ outcome: "success", details: { method: "password" } }]);
});

test("POST /auth/confirm: a wrong password is 400, and the fifth locks confirmations, not sign-ins", async () => {
  const { user, post } = await app.signIn();
  const guess = () => post("/auth/confirm", { password: WRONG_PASSWORD });
  expect(await guess()).toMatchObject(refusal(400, "INVALID_CURRENT_PASSWORD"));
  for (let i = 0; i < 4; i++) await guess();
  expect(await guess()).toMatchObject(refusal(423, "ACCOUNT_LOCKED"));
  expect((await app.login(user.email)).status).toBe(200);
});

test("POST /auth/confirm: evaluates at most five of 40 concurrent wrong passwords", async () => {
  const { post } = await app.signIn();
  const statuses = await statusesOf(40, () => post("/auth/confirm", { password: WRONG_PASSWORD }));
  expect(statuses[400]).toBeLessThanOrEqual(5);
  expect(statuses[200]).toBeUndefined();
});

test("POST /auth/confirm: requires the second factor of an account that has one", async () => {
  const { user, authenticator } = await app.setUpConfirmedFactor();
  const signedIn = await app.signInBy(user, { code: await authenticator.code() });
  const { post } = withToken(app.httpClient(), signedIn.body.accessToken);
  const { password } = user;
  expect(await post("/auth/confirm", { password })).toMatchObject(invalid("code"));
  expect(await post("/auth/confirm", { password, ...WRONG_CODE })).toMatchObject(
    refusal(401, "INVALID_CODE"),
  );
  const backupCode = authenticator.backupCodes[0];
  expect((await post("/auth/confirm", { password, backupCode })).status).toBe(200);
  expect(await post("/auth/confirm", { password, backupCode })).toMatchObject(
    refusal(401, "INVALID_CODE"),
  );
});

test("POST /auth/confirm: rejects a request without a proof, with two codes, or with a code of an account without a second factor", async () => {
  const { user, post } = await app.signIn();
  const { password } = user;
  expect(await post("/auth/confirm", {})).toMatchObject(invalid("password"));
  const both = { password, code: "123456", backupCode: "ABCD-2345" };
  expect(await post("/auth/confirm", both)).toMatchObject(invalid("code"));
  expect(await post("/auth/confirm", { password, code: "123456" })).toMatchObject(
    refusal(409, "MFA_NOT_ENABLED"),
  );
  expect((await app.httpClient().post("/auth/confirm", { password })).status).toBe(401);
});

test("POST /auth/confirm: does not confirm a session that has ended", async () => {
  const { user, post } = await app.signIn();
  await post("/auth/logout", {});
  expect((await post("/auth/confirm", { password: user.password })).status).toBe(401);
});

test("POST /auth/confirm: counts for ADMIN_REAUTH, and replaces the password in a change of role", async () => {
  const admin = await app.signInAdmin();
  const target = await app.addUser();
  app.clock.advance("61m");
  const { accessToken } = (await admin.browser.post("/auth/refresh")).body;
  const { put, post } = withToken(admin.browser, accessToken);
  const promote = () => put(`/admin/users/${target.id}`, { role: "admin" });
  expect(await promote()).toMatchObject(REQUIRED);
  expect((await post("/auth/confirm", { password: admin.user.password })).status).toBe(200);
  expect((await promote()).status).toBe(200);
});

test("AuthService/Confirm: applies the same rules over gRPC", async () => {
  const { user, headers } = await app.signIn();
  const auth = app.grpc(AuthService);
  await expect(auth.confirm({ password: WRONG_PASSWORD }, { headers })).rejects.toThrow("wrong");
  await expect(auth.confirm({}, { headers })).rejects.toThrow("is required");
  const { confirmedUntil } = await auth.confirm({ password: user.password }, { headers });
  expect(confirmedUntil).toBeDefined();
});

test("Access tokens: contain how and when the user signed in, even after a refresh", async () => {
  const { user, accessToken, browser } = await app.signIn();
  const { iat } = decodeJwt(accessToken);
  expect(decodeJwt(accessToken)).toMatchObject({ amr: ["pwd"], auth_time: iat });
  app.clock.advance("5m");
  const refreshed = (await browser.post("/auth/refresh")).body.accessToken;
  expect(decodeJwt(refreshed)).toMatchObject({ amr: ["pwd"], auth_time: iat });
  const { authenticator } = await app.setUpFactor(user);
  const byCode = await app.signInBy(user, { code: await authenticator.code() });
  expect(decodeJwt(byCode.body.accessToken).amr).toEqual(["pwd", "otp", "mfa"]);
});

test("Access tokens: those of an impersonation contain nothing about a sign-in of the user", async () => {
  const admin = await app.signInAdmin();
  const user = await app.addUser();
  const { body } = await admin.post(`/admin/impersonate/${user.id}`, {});
  const claims = decodeJwt(body.accessToken);
  expect([claims.amr, claims.auth_time]).toEqual([undefined, undefined]);
});

test("Access tokens: those of a session from the previous release have a time and no methods", async () => {
  const { user, browser } = await app.signIn();
  await app.sql("update sessions set methods = default where user_id = ?", [user.id]);
  const claims = decodeJwt((await browser.post("/auth/refresh")).body.accessToken);
  expect([claims.amr, typeof claims.auth_time]).toEqual([undefined, "number"]);
});
