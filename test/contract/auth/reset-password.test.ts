import { expect, test } from "vitest";
import type { TestUser } from "../../support/accounts.ts";
import { auditOf, signInAdmin } from "../../support/admin.ts";
import { testApp } from "../../support/app.ts";
import { mfaTokenFor, setUpFactor } from "../../support/authenticator.ts";
import { refusal } from "../../support/failures.ts";
import { login, NEW_PASSWORD as NEW, resetPassword, resetTokenFor } from "../../support/passwords.ts";
import { setUpConfirmedFactor, signInBy, verifyMfa, WRONG_CODE } from "../../support/second-factor.ts";
import { profileStatus, profileStatusBy, refreshBy } from "../../support/sessions.ts";
import { tally, times } from "../../support/until.ts";

const app = await testApp();
const refused = refusal(400, "TOKEN_INVALID");
const reset = (token: unknown, password = NEW) => resetPassword(app, token, password);
const resetOf = async ({ email }: { email: string }) => reset(await resetTokenFor(app, email));

test("POST /auth/reset-password: sets the password once, ends every session and notifies the user", async () => {
  const account = await app.signIn(await app.addVerifiedUser());
  const { email } = account.user;
  const token = await resetTokenFor(app, email);
  expect(await reset(token)).toMatchObject({ status: 200, body: { message: expect.any(String) } });
  expect(await reset(token)).toMatchObject(refused);
  expect(await profileStatus(account)).toBe(401);
  expect((await refreshBy(app, account.refreshToken)).status).toBe(401);
  expect((await login(app, email)).status).toBe(401);
  expect((await login(app, email, NEW)).status).toBe(200);
  await app.mail.emailTo(email, /password was reset/);
});

test("POST /auth/reset-password: clears the lock of the second factor, and keeps the factor", async () => {
  const { user, authenticator } = await setUpConfirmedFactor(app, await app.addVerifiedUser());
  const locked = await mfaTokenFor(app, user);
  for (let i = 0; i < 5; i++) expect((await verifyMfa(app, locked, WRONG_CODE)).status).toBe(401);
  const code = await authenticator.code();
  expect((await signInBy(app, user, { code })).status).toBe(423);
  expect((await resetOf(user)).status).toBe(200);
  const afterwards = await mfaTokenFor(app, { ...user, credentials: { email: user.email, password: NEW } });
  expect((await verifyMfa(app, afterwards, WRONG_CODE)).status).toBe(401);
  expect((await verifyMfa(app, afterwards, { code })).status).toBe(200);
});

test("POST /auth/reset-password: a weak password leaves the token valid; a success verifies the address", async () => {
  const { email } = await app.addUser();
  const token = await resetTokenFor(app, email);
  for (const weak of ["short", "lowercase-1", "x".repeat(5000)])
    expect(await reset(token, weak)).toMatchObject(refusal(400, "VALIDATION_FAILED"));
  expect((await reset(token)).status).toBe(200);
  const { body } = await login(app, email, NEW);
  expect((await app.httpClient().get("/user/profile", body.accessToken)).body.emailVerified).toBe(true);
});

test("POST /auth/reset-password: keeps a confirmed factor of a verified account, and drops any other", async () => {
  for (const [user, confirms, kept] of [
    [await app.addVerifiedUser(), true, true],
    [await app.addVerifiedUser(), false, false],
    [await app.addUser(), true, false],
  ] as const) {
    await (confirms ? setUpConfirmedFactor : setUpFactor)(app, user);
    expect((await resetOf(user)).status).toBe(200);
    expect((await login(app, user.email, NEW)).body.requiresMfa).toBe(kept);
    expect(await app.sql("select 1 from backup_codes where user_id = ?", [user.id])).toHaveLength(kept ? 10 : 0);
    expect(await auditOf(app, user.id, "auth.mfa_disabled")).toHaveLength(kept ? 0 : 1);
    expect(await auditOf(app, user.id, "auth.email_verified")).toHaveLength(1);
    if (!kept) await app.mail.emailTo(user.email, /Two-factor sign-in is off/);
  }
});

test.each([
  ["an administrator marks the address as unverified", () => ({ emailVerified: false })],
  ["an administrator changes the address", (user: TestUser) => ({ email: `moved-${user.email}` })],
])(
  "POST /auth/reset-password: keeps the second factor of an account that was verified before: %s",
  async (_, changes) => {
    const [admin, user] = [await signInAdmin(app), await app.addVerifiedUser()];
    await setUpConfirmedFactor(app, user);
    const changed = await admin.put(`/admin/users/${user.id}`, changes(user));
    expect(changed).toMatchObject({ status: 200, body: { user: { emailVerified: false } } });
    const { email } = changed.body.user;
    expect((await resetOf({ email })).status).toBe(200);
    expect((await login(app, email, NEW)).body.requiresMfa).toBe(true);
  },
);

test("POST /auth/reset-password: voids pending links to another address", async () => {
  const { user, post } = await app.signIn(await app.addVerifiedUser());
  const newEmail = `new-${user.email}`;
  await post("/user/change-email", { newEmail, password: user.password });
  const { token } = await app.mail.emailTo(newEmail);
  expect((await resetOf(user)).status).toBe(200);
  expect(await app.httpClient().post("/auth/verify-email", { token })).toMatchObject(refused);
});

test.each([
  ["an address that the account has left", "email = 'new-' || email, canonical_email = 'new-' || canonical_email"],
  ["an account whose deletion date has passed", "deletion_at = '2000-01-01'"],
])("POST /auth/reset-password: refuses the token of %s", async (_, change) => {
  const { id, email } = await app.addUser();
  const token = await resetTokenFor(app, email);
  await app.sql(`update users set ${change} where id = ?`, [id]);
  expect(await reset(token)).toMatchObject(refused);
});

test("POST /auth/reset-password: refuses a token after an hour", async () => {
  const token = await resetTokenFor(app, (await app.addUser()).email);
  app.clock.advance("1h");
  expect(await reset(token)).toMatchObject(refused);
});

test("POST /auth/reset-password: 50 parallel uses have one success", async () => {
  const { email } = await app.addUser();
  const token = await resetTokenFor(app, email);
  const answers = await Promise.all(times(50, (i) => reset(token, `${NEW}-${i}`)));
  expect(tally(answers, (a) => a.status)).toEqual({ 200: 1, 400: 49 });
  const winner = answers.findIndex((a) => a.status === 200);
  expect((await login(app, email, `${NEW}-${winner}`)).status).toBe(200);
});

test("POST /auth/reset-password: logins with the old password that race it open no session", async () => {
  for (let round = 0; round < 5; round++) {
    const { email } = await app.addVerifiedUser();
    const token = await resetTokenFor(app, email);
    const [outcome, ...logins] = await Promise.all([reset(token), ...times(5, () => login(app, email))]);
    expect(outcome.status).toBe(200);
    for (const { status, body } of logins) {
      expect([200, 401]).toContain(status);
      if (status === 200) expect(await profileStatusBy(app, body.accessToken)).toBe(401);
    }
  }
});
