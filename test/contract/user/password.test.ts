import { expect, test } from "vitest";
import { UserService } from "../../../gen/gatehouse/account/v1/user_service_pb.ts";
import { createPasswords } from "../../../services/crypto/passwords.ts";
import { freshEmail, NEW_PASSWORD, WRONG_PASSWORD } from "../../support/accounts.ts";
import { CHEAP, testApp } from "../../support/app.ts";
import { withToken } from "../../support/http/client.ts";
import { invalid, refusal } from "../../support/http/responses.ts";
import { statusesOf } from "../../support/tally.ts";

const app = await testApp();
const passwords = createPasswords(CHEAP);
const REQUIRED = refusal(403, "REAUTHENTICATION_REQUIRED");

/** A signed-in account that has lost its password. */
async function withoutPassword(given?: Parameters<typeof app.signIn>[0]) {
  const account = await app.signIn(given);
  const { noPassword } = await passwords;
  const sql = "update users set has_password = false, password_hash = ? where id = ?";
  await app.sql(sql, [noPassword, account.user.id]);
  return account;
}

/** The same, after 20 minutes. */
async function longWithoutPassword() {
  const { user, browser } = await withoutPassword();
  app.clock.advance("20m");
  return { user, ...withToken(browser, (await browser.post("/auth/refresh")).body.accessToken) };
}

test("PUT /user/password: sets the first password, which then signs in, and notifies the owner", async () => {
  const { user, put, get } = await withoutPassword();
  const ways = { passkeys: 0, identities: 0, emailCode: false, secondFactorRequired: false };
  expect((await get("/user/sign-in-methods")).body).toEqual({ hasPassword: false, ...ways });
  expect((await put("/user/password", { newPassword: NEW_PASSWORD })).status).toBe(200);
  expect((await get("/user/sign-in-methods")).body).toEqual({ hasPassword: true, ...ways });
  expect((await app.login(user.email, NEW_PASSWORD)).status).toBe(200);
  expect(await app.auditOf(user.id, "user.password_set")).toHaveLength(1);
  expect((await app.mail.emailTo(user.email, /now has a password/)).subject).toBeTruthy();
});

test("PUT /user/password: is 409 if there is a password, 403 in an old session, 400 for a weak one", async () => {
  const { put } = await app.signIn();
  const set = { newPassword: NEW_PASSWORD };
  expect(await put("/user/password", set)).toMatchObject(refusal(409, "CONFLICT"));
  const old = await longWithoutPassword();
  expect(await old.put("/user/password", set)).toMatchObject(REQUIRED);
  const recent = await withoutPassword();
  expect(await recent.put("/user/password", { newPassword: "Short-1" })).toMatchObject(
    invalid("newPassword"),
  );
});

test("PUT /user/password: one of 20 concurrent requests sets the password", async () => {
  const { put } = await withoutPassword();
  const statuses = await statusesOf(20, () => put("/user/password", { newPassword: NEW_PASSWORD }));
  expect(statuses).toEqual({ 200: 1, 409: 19 });
});

test("DELETE /user/password: does not remove the last way in", async () => {
  const account = await app.signIn();
  expect(await account.delete("/user/password")).toMatchObject(refusal(409, "LAST_SIGN_IN_METHOD"));
  expect(await statusesOf(10, () => account.delete("/user/password"))).toEqual({ 409: 10 });
  expect((await app.login(account.user.email)).status).toBe(200);
});

test("DELETE /user/password: is 409 without a password, and 403 in an old session", async () => {
  const { delete: remove } = await withoutPassword();
  expect(await remove("/user/password")).toMatchObject(refusal(409, "CONFLICT"));
  const { browser } = await app.signIn();
  app.clock.advance("20m");
  const old = withToken(browser, (await browser.post("/auth/refresh")).body.accessToken);
  expect(await old.delete("/user/password")).toMatchObject(REQUIRED);
});

test("An account without a password cannot sign in with one, and has no password expiry", async () => {
  const { user, get } = await withoutPassword();
  for (const password of [user.password, "no account has this password"])
    expect((await app.login(user.email, password)).status).toBe(401);
  expect((await get("/user/profile")).body).not.toHaveProperty("passwordExpiresAt");
});

test("An account without a password gets one by a mailed reset", async () => {
  const { user } = await withoutPassword(await app.addVerifiedUser());
  expect((await app.resetPassword(await app.resetTokenFor(user.email))).status).toBe(200);
  const { body } = await app.login(user.email, NEW_PASSWORD);
  const { get } = withToken(app.httpClient(), body.accessToken);
  expect((await get("/user/sign-in-methods")).body.hasPassword).toBe(true);
});

const ASKING = [
  { path: "/user/change-email", body: () => ({ newEmail: freshEmail() }), field: "password" },
  {
    path: "/user/change-password",
    body: () => ({ newPassword: NEW_PASSWORD }),
    field: "currentPassword",
  },
  { path: "/auth/disable-totp", body: () => ({}), field: "password" },
];
test.for(ASKING)(
  "POST $path: requires a recent sign-in from an account without a password",
  async ({ path, body, field }) => {
    const has = await app.signIn();
    expect(await has.post(path, body())).toMatchObject(invalid(field));
    const guessed = await has.post(path, { ...body(), [field]: WRONG_PASSWORD });
    expect(guessed).toMatchObject(refusal(400, "INVALID_CURRENT_PASSWORD"));
    const old = await longWithoutPassword();
    expect(await old.post(path, body())).toMatchObject(REQUIRED);
    const recent = await withoutPassword();
    const expected = path === "/auth/disable-totp" ? 409 : 200; // it has no factor
    expect((await recent.post(path, body())).status).toBe(expected);
  },
);

test("POST /user/delete-account: requires a recent sign-in from an account without a password", async () => {
  const old = await longWithoutPassword();
  expect(await old.post("/user/delete-account", {})).toMatchObject(REQUIRED);
  const recent = await withoutPassword();
  expect((await recent.post("/user/delete-account", {})).status).toBe(200);
});

test("UserService: passwords follow the same rules over gRPC", async () => {
  const user = app.grpc(UserService);
  const { headers } = await withoutPassword();
  await expect(user.removePassword({}, { headers })).rejects.toThrow("no password");
  await user.setPassword({ newPassword: NEW_PASSWORD }, { headers });
  await expect(user.setPassword({ newPassword: NEW_PASSWORD }, { headers })).rejects.toThrow(
    "has a password",
  );
  await expect(user.removePassword({}, { headers })).rejects.toThrow("last way");
  expect((await user.getSignInMethods({}, { headers })).hasPassword).toBe(true);
});

test("PUT /user/second-factor: requires a confirmed authenticator, which then cannot be removed", async () => {
  const plain = await app.signIn();
  const requireFactor = (required: boolean, { put } = plain) =>
    put("/user/second-factor", { required });
  expect(await requireFactor(true)).toMatchObject(refusal(409, "MFA_NOT_ENABLED"));
  const { user, authenticator } = await app.setUpConfirmedFactor();
  const signedIn = await app.signInBy(user, { code: await authenticator.code() });
  const account = withToken(app.httpClient(), signedIn.body.accessToken);
  const { status, body } = await account.put("/user/second-factor", { required: true });
  expect([status, Object.keys(body)]).toEqual([200, ["message"]]);
  expect((await account.get("/user/profile")).body.secondFactorRequired).toBe(true);
  app.clock.advance("30s");
  const off = { password: user.password, code: await authenticator.code() };
  expect(await account.post("/auth/disable-totp", off)).toMatchObject(
    refusal(409, "LAST_SIGN_IN_METHOD"),
  );
  expect((await account.put("/user/second-factor", { required: false })).status).toBe(200);
  expect((await account.get("/user/profile")).body).not.toHaveProperty("secondFactorRequired");
  const events = await app.auditOf(user.id, "user.second_factor_changed");
  expect(events.map(({ details }) => details)).toEqual([{ required: false }, { required: true }]);
});

test("PUT /user/second-factor: creates backup codes if there are none", async () => {
  const { user, authenticator } = await app.setUpConfirmedFactor();
  const signedIn = await app.signInBy(user, { code: await authenticator.code() });
  await app.sql("delete from backup_codes where user_id = ?", [user.id]);
  const { put } = withToken(app.httpClient(), signedIn.body.accessToken);
  const { body } = await put("/user/second-factor", { required: true });
  expect(body.backupCodes).toHaveLength(10);
  expect((await app.signInBy(user, { backupCode: body.backupCodes[0] })).status).toBe(200);
});

test("PUT /admin/users/:id: mfaEnabled false also removes the requirement of a second factor", async () => {
  const { user } = await app.setUpConfirmedFactor();
  await app.sql("update users set second_factor = true where id = ?", [user.id]);
  const admin = await app.signInAdmin();
  expect((await admin.put(`/admin/users/${user.id}`, { mfaEnabled: false })).status).toBe(200);
  expect((await app.login(user.email)).body.requiresMfa).toBe(false);
});
