import { test as base, expect } from "vitest";
import { STEP_MS } from "../../support/account-actions.ts";
import { NEW_PASSWORD, WRONG_CODE } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { invalid, refusal, TEXT } from "../../support/http/responses.ts";
import { repetitions, statusesOf, tally, times } from "../../support/tally.ts";

const app = await testApp();
const { verifyMfa: verify } = app;
const invalidCode = refusal(401, "INVALID_CODE");
const invalidTicket = refusal(401, "TICKET_INVALID");
const test = base
  .extend("account", () => app.setUpFactor())
  .extend("user", ({ account }) => account.user)
  .extend("authenticator", ({ account }) => account.authenticator)
  .extend("tempToken", ({ user }) => app.mfaTokenFor(user));

test("POST /auth/login: with a second factor, returns an MFA token, but no tokens, user or cookie", async ({
  user,
}) => {
  const { status, body, headers } = await app.httpClient().post("/auth/login", user.credentials);
  expect({ status, body }).toEqual({ status: 200, body: { requiresMfa: true, tempToken: TEXT } });
  expect(headers.get("set-cookie")).toBeNull();
  const open = await app.sql("select id from sessions where user_id = ? and revoked_at is null", [
    user.id,
  ]);
  expect(open).toHaveLength(1);
});

test("POST /auth/verify-mfa: accepts a code once", async ({ user, authenticator, tempToken }) => {
  const code = await authenticator.code();
  const answer = await verify(tempToken, { code });
  const wanted = {
    accessToken: TEXT,
    refreshToken: TEXT,
    user: { id: user.id, email: user.email },
  };
  expect(answer.body).toEqual(wanted);
  expect(answer.headers.get("set-cookie")).toContain(`refreshToken=${answer.body.refreshToken}`);
  expect(await app.profileStatus(answer.body.accessToken)).toBe(200);
  expect(await verify(tempToken, { code })).toMatchObject(invalidTicket);
});

test("POST /auth/verify-mfa: accepts codes of three time steps once each, and no older one", async ({
  user,
  authenticator,
}) => {
  const attempt = async (steps: number) =>
    (await app.signInBy(user, { code: await authenticator.code(steps) })).status;
  app.clock.advance(`${STEP_MS - (app.clock.now().getTime() % STEP_MS) + 1_000}ms`); // one second after the begin of a step
  for (const refused of [-2, 2]) expect(await attempt(refused)).toBe(401);
  for (const accepted of [-1, 1])
    expect([await attempt(accepted), await attempt(accepted)]).toEqual([200, 401]);
  expect(await attempt(0)).toBe(401); // older than the last one
});

test("POST /auth/verify-mfa: accepts each backup code once, in any case and without the hyphen, and notifies the user", async () => {
  const { user, authenticator } = await app.setUpFactor();
  const [first, second] = authenticator.backupCodes as [string, string];
  const attempt = (backupCode: string) => app.signInBy(user, { backupCode });
  expect((await attempt(first.toLowerCase().replace("-", ""))).status).toBe(200);
  expect(await attempt(first)).toMatchObject(invalidCode);
  expect((await attempt(` ${second} `)).status).toBe(200);
  expect((await app.mail.emailTo(user.email, /backup code was used/)).text).toMatch(
    /; [89] are left/,
  );
});

test("POST /auth/verify-mfa: requires an MFA token, and either a code or a backup code", async ({
  authenticator,
  tempToken,
}) => {
  for (const factor of [{}, { code: "1", backupCode: "2" }]) {
    const message =
      "Invalid request: code is required unless backupCode is given, and not allowed with it.";
    const body = { message, violations: [{ field: "code" }] };
    expect(await verify(tempToken, factor)).toMatchObject({ status: 400, body });
  }
  expect(await verify("", WRONG_CODE)).toMatchObject(invalid("tempToken"));
  expect(await verify("x.y.z", WRONG_CODE)).toMatchObject(invalidTicket);
  for (const code of ["12345", "1234567", "abcdef"])
    expect(await verify(tempToken, { code })).toMatchObject(invalid("code"));
  expect(await verify(tempToken, { code: "１２３４５６" })).toMatchObject(invalidCode);
  expect((await verify(tempToken, { code: await authenticator.code() })).status).toBe(200);
});

test("POST /auth/verify-mfa: an MFA token expires after five minutes, with a newer token, and with the account", async () => {
  const { user, authenticator } = await app.setUpFactor();
  const replaced = await app.mfaTokenFor(user);
  const expired = await app.mfaTokenFor(user);
  expect(await verify(replaced, { code: await authenticator.code() })).toMatchObject(invalidTicket);
  app.clock.advance("5m");
  expect(await verify(expired, { code: await authenticator.code() })).toMatchObject(invalidTicket);
  const last = await app.mfaTokenFor(user);
  await app.sql("update users set deletion_at = '2000-01-01' where id = ?", [user.id]);
  expect(await verify(last, { code: await authenticator.code() })).toMatchObject(invalidTicket);
});

test("POST /auth/verify-mfa: five wrong codes invalidate an MFA token", async ({
  user,
  authenticator,
  tempToken,
}) => {
  for (let i = 0; i < 5; i++) {
    expect(await verify(tempToken, WRONG_CODE)).toMatchObject(invalidCode);
    await app.sql("delete from attempts where subject = ?", [user.id]); // the lock of the account is tested below
  }
  expect(await verify(tempToken, { code: await authenticator.code() })).toMatchObject(
    invalidTicket,
  );
});

test("POST /auth/verify-mfa: five wrong codes lock the factor, not the password", async ({
  account,
  tempToken,
}) => {
  const { user, authenticator, post } = account;
  const answers = [];
  for (let i = 0; i < 6; i++) answers.push(await verify(tempToken, WRONG_CODE));
  expect(answers.map((a) => a.status)).toEqual([401, 401, 401, 401, 401, 423]);
  expect(Number(answers[5]?.headers.get("retry-after"))).toBeGreaterThan(890);
  expect((await app.signInBy(user, { code: await authenticator.code() })).status).toBe(423);
  expect(
    (await post("/auth/disable-totp", { password: user.password, ...WRONG_CODE })).status,
  ).toBe(423);
  expect(await app.auditOf(user.id, "auth.locked")).toHaveLength(1);
  expect(await app.auditOf(user.id, "auth.mfa_failed")).toHaveLength(5);
  app.clock.advance("15m");
  expect((await app.signInBy(user, { code: await authenticator.code() })).status).toBe(200);
});

test("POST /auth/verify-mfa: a correct code restarts the count", async ({
  user,
  authenticator,
}) => {
  for (let round = 0; round < 2; round++) {
    const tempToken = await app.mfaTokenFor(user);
    for (let i = 0; i < 4; i++) expect((await verify(tempToken, WRONG_CODE)).status).toBe(401);
    expect((await verify(tempToken, { code: await authenticator.code() })).status).toBe(200);
    app.clock.advance("30s"); // the next code
  }
});

test("POST /auth/verify-mfa: evaluates at most five of 30 concurrent codes from many addresses", async ({
  tempToken,
}) => {
  const answers = await Promise.all(times(30, () => verify(tempToken, WRONG_CODE)));
  expect(tally(answers, (a) => a.status)).toEqual({ 401: 5, 423: 25 });
});

test.each(["code", "backup code"])(
  "POST /auth/verify-mfa: one of 50 concurrent uses of a %s succeeds",
  async (kind) => {
    for (let round = 0; round < repetitions(2); round++) {
      const { user, authenticator } = await app.setUpFactor();
      const tempToken = await app.mfaTokenFor(user);
      const backupCode = authenticator.backupCodes[round % 10];
      const factor = kind === "code" ? { code: await authenticator.code() } : { backupCode };
      expect(await statusesOf(50, () => verify(tempToken, factor))).toEqual({ 200: 1, 401: 49 });
      expect(await app.sql("select id from sessions where user_id = ?", [user.id])).toHaveLength(2);
      const left = await app.sql("select digest from backup_codes where user_id = ?", [user.id]);
      expect(left).toHaveLength(kind === "code" ? 10 : 9);
    }
  },
);

test("POST /auth/verify-mfa: an MFA token used during a password change opens no session", async () => {
  for (let round = 0; round < 5; round++) {
    const { user, authenticator, post } = await app.setUpFactor();
    const tempToken = await app.mfaTokenFor(user);
    const code = await authenticator.code();
    const [changed, verified] = await Promise.all([
      post("/user/change-password", { currentPassword: user.password, newPassword: NEW_PASSWORD }),
      verify(tempToken, { code }),
    ]);
    expect(changed.status).toBe(200);
    if (verified.status === 200)
      expect(await app.profileStatus(verified.body.accessToken)).toBe(401);
    expect((await verify(tempToken, { backupCode: authenticator.backupCodes[0] })).status).toBe(
      401,
    );
  }
});

test("POST /auth/verify-mfa: 100 wrong codes in a row lock codes until a backup code is used", async () => {
  const { user: old, authenticator } = await app.setUpConfirmedFactor(await app.addVerifiedUser());
  const tempToken = await app.mfaTokenFor(old);
  expect((await verify(tempToken, WRONG_CODE)).status).toBe(401);
  await app.mail.emailTo(old.email, /wrong code/);
  await app.sql("update attempts set consecutive = 99 where subject = ?", [old.id]);
  expect((await verify(tempToken, WRONG_CODE)).status).toBe(401);
  app.clock.advance("25h");
  expect((await app.resetPassword(await app.resetTokenFor(old.email))).status).toBe(200);
  const user = { ...old, credentials: { email: old.email, password: NEW_PASSWORD } };
  const again = await app.mfaTokenFor(user);
  const locked = await verify(again, { code: await authenticator.code() });
  expect(locked).toMatchObject({
    status: 423,
    body: { message: expect.stringContaining("backup code") },
  });
  expect((await verify(again, { backupCode: "AAAA-AAAA" })).status).toBe(401);
  expect((await verify(again, { backupCode: authenticator.backupCodes[0] })).status).toBe(200);
  app.clock.advance("30s"); // the next code
  expect((await app.signInBy(user, { code: await authenticator.code() })).status).toBe(200);
});
