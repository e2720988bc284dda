import { expect, test } from "vitest";
import type { TestUser } from "../../support/accounts.ts";
import { auditOf, signInAdmin } from "../../support/admin.ts";
import { testApp } from "../../support/app.ts";
import { type Authenticator, mfaTokenFor, setUpFactor } from "../../support/authenticator.ts";
import { tally, times } from "../../support/until.ts";

const app = await testApp();
const NEW = "Brand-new-2";
const refused = { status: 400, body: { code: "TOKEN_INVALID" } };
const reset = (token: unknown, password = NEW) => app.httpClient().post("/auth/reset-password", { token, password });
const login = (user: TestUser, password = user.password) =>
  app.httpClient().post("/auth/login", { email: user.email, password });

/** Signs in with a code, which confirms the factor. */
async function confirm(user: TestUser, { code }: Authenticator): Promise<void> {
  const body = { tempToken: await mfaTokenFor(app, user), code: await code() };
  expect((await app.httpClient().post("/auth/verify-mfa", body)).status).toBe(200);
}

/** Requests a reset. @returns the mailed token */
async function tokenFor(user: TestUser): Promise<string> {
  await app.httpClient().post("/auth/forgot-password", { email: user.email });
  return (await app.mail.emailTo(user.email, /Reset/)).token as string;
}

test("POST /auth/reset-password: sets the password once, ends every session and notifies the user", async () => {
  const { user, browser, accessToken, refreshToken } = await app.signIn(await app.addVerifiedUser());
  const token = await tokenFor(user);
  expect(await reset(token)).toMatchObject({ status: 200, body: { message: expect.any(String) } });
  expect(await reset(token)).toMatchObject(refused);
  expect((await browser.get("/user/profile", accessToken)).status).toBe(401);
  const old = { cookie: `refreshToken=${refreshToken}` };
  expect((await app.httpClient().send("POST", "/auth/refresh", undefined, old)).status).toBe(401);
  expect((await login(user)).status).toBe(401);
  expect((await login(user, NEW)).status).toBe(200);
  await app.mail.emailTo(user.email, /password was reset/);
});

test("POST /auth/reset-password: clears the lock of the second factor, and keeps the factor", async () => {
  const { user, authenticator } = await setUpFactor(app, await app.addVerifiedUser());
  await confirm(user, authenticator);
  const verify = async (tempToken: string, code: string) =>
    (await app.httpClient().post("/auth/verify-mfa", { tempToken, code })).status;
  const locked = await mfaTokenFor(app, user);
  for (let i = 0; i < 5; i++) expect(await verify(locked, "000000")).toBe(401);
  expect(await verify(await mfaTokenFor(app, user), await authenticator.code(1))).toBe(423);
  expect((await reset(await tokenFor(user))).status).toBe(200);
  const afterwards = await mfaTokenFor(app, { ...user, credentials: { email: user.email, password: NEW } });
  expect(await verify(afterwards, "000000")).toBe(401);
  expect(await verify(afterwards, await authenticator.code(1))).toBe(200);
});

test("POST /auth/reset-password: a weak password leaves the token valid; a success verifies the address", async () => {
  const user = await app.addUser();
  const token = await tokenFor(user);
  for (const weak of ["short", "lowercase-1", "x".repeat(5000)]) {
    expect(await reset(token, weak)).toMatchObject({ status: 400, body: { code: "VALIDATION_FAILED" } });
  }
  expect((await reset(token)).status).toBe(200);
  const { body } = await login(user, NEW);
  expect((await app.httpClient().get("/user/profile", body.accessToken)).body.emailVerified).toBe(true);
});

test("POST /auth/reset-password: refuses altered tokens, those of another kind, and old ones", async () => {
  const user = await app.addUser();
  const { token: verification } = await app.mail.emailTo(user.email);
  const token = await tokenFor(user);
  for (const wrong of [verification, `${token}A`, token.slice(1), "x", "a".repeat(4096)]) {
    expect(await reset(wrong)).toMatchObject(refused);
  }
  expect(await app.httpClient().post("/auth/verify-email", { token })).toMatchObject(refused);
  app.clock.advance("1h");
  expect(await reset(token)).toMatchObject(refused);
});

test("POST /auth/reset-password: keeps a confirmed factor of a verified account, and drops any other", async () => {
  for (const [user, confirms, kept] of [
    [await app.addVerifiedUser(), true, true],
    [await app.addVerifiedUser(), false, false],
    [await app.addUser(), true, false],
  ] as const) {
    const { authenticator } = await setUpFactor(app, user);
    if (confirms) await confirm(user, authenticator);
    expect((await reset(await tokenFor(user))).status).toBe(200);
    expect((await login(user, NEW)).body.requiresMfa).toBe(kept);
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
    const { authenticator } = await setUpFactor(app, user);
    await confirm(user, authenticator);
    const changed = await admin.put(`/admin/users/${user.id}`, changes(user));
    expect(changed).toMatchObject({ status: 200, body: { user: { emailVerified: false } } });
    const moved = { ...user, email: changed.body.user.email };
    expect((await reset(await tokenFor(moved))).status).toBe(200);
    expect((await login(moved, NEW)).body.requiresMfa).toBe(true);
  },
);

test("POST /auth/reset-password: voids pending links to another address", async () => {
  const { user, browser, accessToken } = await app.signIn(await app.addVerifiedUser());
  const newEmail = `new-${user.email}`;
  await browser.post("/user/change-email", { newEmail, password: user.password }, accessToken);
  const { token } = await app.mail.emailTo(newEmail);
  expect((await reset(await tokenFor(user))).status).toBe(200);
  expect(await app.httpClient().post("/auth/verify-email", { token })).toMatchObject(refused);
});

test.each([
  ["an address that the account has left", "email = 'new-' || email, canonical_email = 'new-' || canonical_email"],
  ["an account whose deletion date has passed", "deletion_at = '2000-01-01'"],
])("POST /auth/reset-password: refuses the token of %s", async (_, change) => {
  const user = await app.addUser();
  const token = await tokenFor(user);
  await app.sql(`update users set ${change} where id = ?`, [user.id]);
  expect(await reset(token)).toMatchObject(refused);
});

test("POST /auth/reset-password: 50 parallel uses have one success", async () => {
  const user = await app.addUser();
  const token = await tokenFor(user);
  const answers = await Promise.all(times(50, (i) => reset(token, `${NEW}-${i}`)));
  expect(tally(answers, (a) => a.status)).toEqual({ 200: 1, 400: 49 });
  const winner = answers.findIndex((a) => a.status === 200);
  expect((await login(user, `${NEW}-${winner}`)).status).toBe(200);
});

test("POST /auth/reset-password: logins with the old password that race it open no session", async () => {
  for (let round = 0; round < 5; round++) {
    const user = await app.addVerifiedUser();
    const token = await tokenFor(user);
    const [outcome, ...logins] = await Promise.all([reset(token), ...times(5, () => login(user))]);
    expect(outcome.status).toBe(200);
    for (const { status, body } of logins) {
      expect([200, 401]).toContain(status);
      if (status === 200) expect((await app.httpClient().get("/user/profile", body.accessToken)).status).toBe(401);
    }
  }
});
