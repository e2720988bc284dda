import { expect, test } from "vitest";
import { NEW_PASSWORD as NEW, type TestUser, WRONG_CODE } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { refusal } from "../../support/http/responses.ts";
import { tally, times } from "../../support/tally.ts";

const app = await testApp();
const refused = refusal(400, "TOKEN_INVALID");
const { login, resetPassword: reset } = app;
const resetOf = async ({ email }: { email: string }) => reset(await app.resetTokenFor(email));

test("POST /auth/reset-password: sets the password once, ends every session and notifies the user", async () => {
  const account = await app.signIn(await app.addVerifiedUser());
  const { email } = account.user;
  const token = await app.resetTokenFor(email);
  expect(await reset(token)).toMatchObject({ status: 200, body: { message: expect.any(String) } });
  expect(await reset(token)).toMatchObject(refused);
  expect(await account.profileStatus()).toBe(401);
  expect((await app.refresh(account.refreshToken)).status).toBe(401);
  expect((await login(email)).status).toBe(401);
  expect((await login(email, NEW)).status).toBe(200);
  await app.mail.emailTo(email, /password was reset/);
});

test("POST /auth/reset-password: clears the lock of the second factor, and keeps the factor", async () => {
  const { user, authenticator } = await app.setUpConfirmedFactor(await app.addVerifiedUser());
  const locked = await app.mfaTokenFor(user);
  for (let i = 0; i < 5; i++) expect((await app.verifyMfa(locked, WRONG_CODE)).status).toBe(401);
  const code = await authenticator.code();
  expect((await app.signInBy(user, { code })).status).toBe(423);
  expect((await resetOf(user)).status).toBe(200);
  const afterwards = await app.mfaTokenFor({
    ...user,
    credentials: { email: user.email, password: NEW },
  });
  expect((await app.verifyMfa(afterwards, WRONG_CODE)).status).toBe(401);
  expect((await app.verifyMfa(afterwards, { code })).status).toBe(200);
});

test("POST /auth/reset-password: a weak password leaves the token valid; a success verifies the address", async () => {
  const { email } = await app.addUser();
  const token = await app.resetTokenFor(email);
  for (const weak of ["short", "lowercase-1", "x".repeat(5000)])
    expect(await reset(token, weak)).toMatchObject(refusal(400, "VALIDATION_FAILED"));
  expect((await reset(token)).status).toBe(200);
  const { body } = await login(email, NEW);
  expect((await app.httpClient().get("/user/profile", body.accessToken)).body.emailVerified).toBe(
    true,
  );
});

test("POST /auth/reset-password: keeps the confirmed factor of a verified account, and removes any other", async () => {
  for (const [user, confirms, kept] of [
    [await app.addVerifiedUser(), true, true],
    [await app.addVerifiedUser(), false, false],
    [await app.addUser(), true, false],
  ] as const) {
    await (confirms ? app.setUpConfirmedFactor : app.setUpFactor)(user);
    expect((await resetOf(user)).status).toBe(200);
    expect((await login(user.email, NEW)).body.requiresMfa).toBe(kept);
    expect(await app.sql("select 1 from backup_codes where user_id = ?", [user.id])).toHaveLength(
      kept ? 10 : 0,
    );
    expect(await app.auditOf(user.id, "auth.mfa_disabled")).toHaveLength(kept ? 0 : 1);
    expect(await app.auditOf(user.id, "auth.email_verified")).toHaveLength(1);
    if (!kept) await app.mail.emailTo(user.email, /Two-factor authentication is off/);
  }
});

test.each([
  ["an administrator marked it as unverified", () => ({ emailVerified: false })],
  ["an administrator changed its address", (user: TestUser) => ({ email: `moved-${user.email}` })],
])(
  "POST /auth/reset-password: keeps the factor of an account that was verified before %s",
  async (_, changes) => {
    const [admin, user] = [await app.signInAdmin(), await app.addVerifiedUser()];
    await app.setUpConfirmedFactor(user);
    const changed = await admin.put(`/admin/users/${user.id}`, changes(user));
    expect(changed).toMatchObject({ status: 200, body: { user: { emailVerified: false } } });
    const { email } = changed.body.user;
    expect((await resetOf({ email })).status).toBe(200);
    expect((await login(email, NEW)).body.requiresMfa).toBe(true);
  },
);

test("POST /auth/reset-password: invalidates pending links to another address", async () => {
  const { user, post } = await app.signIn(await app.addVerifiedUser());
  const newEmail = `new-${user.email}`;
  await post("/user/change-email", { newEmail, password: user.password });
  const { token } = await app.mail.emailTo(newEmail);
  expect((await resetOf(user)).status).toBe(200);
  expect(await app.verifyEmail(token)).toMatchObject(refused);
});

test("POST /auth/reset-password: one of 50 concurrent uses of a token succeeds", async () => {
  const { email } = await app.addUser();
  const token = await app.resetTokenFor(email);
  const answers = await Promise.all(times(50, (i) => reset(token, `${NEW}-${i}`)));
  expect(tally(answers, (a) => a.status)).toEqual({ 200: 1, 400: 49 });
  const winner = answers.findIndex((a) => a.status === 200);
  expect((await login(email, `${NEW}-${winner}`)).status).toBe(200);
});

test("POST /auth/reset-password: concurrent logins with the old password leave no open session", async () => {
  for (let round = 0; round < 5; round++) {
    const { email } = await app.addVerifiedUser();
    const token = await app.resetTokenFor(email);
    const [outcome, ...logins] = await Promise.all([reset(token), ...times(5, () => login(email))]);
    expect(outcome.status).toBe(200);
    for (const { status, body } of logins) {
      expect([200, 401]).toContain(status);
      if (status === 200) expect(await app.profileStatus(body.accessToken)).toBe(401);
    }
  }
});
