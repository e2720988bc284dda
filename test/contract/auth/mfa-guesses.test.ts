import { expect, test } from "vitest";
import { auditOf } from "../../support/admin.ts";
import { testApp } from "../../support/app.ts";
import { mfaTokenFor, setUpFactor } from "../../support/authenticator.ts";
import { refusal } from "../../support/failures.ts";
import { NEW_PASSWORD, resetPassword, resetTokenFor } from "../../support/passwords.ts";
import { repetitions } from "../../support/repeat.ts";
import { setUpConfirmedFactor, signInBy, verifyMfa, WRONG_CODE } from "../../support/second-factor.ts";
import { profileStatusBy } from "../../support/sessions.ts";
import { tally, times } from "../../support/until.ts";

const app = await testApp();

test("POST /auth/verify-mfa: five wrong codes void an MFA token", async () => {
  const { user, authenticator } = await setUpFactor(app);
  const tempToken = await mfaTokenFor(app, user);
  for (let i = 0; i < 5; i++) {
    expect(await verifyMfa(app, tempToken, WRONG_CODE)).toMatchObject(refusal(401, "INVALID_CODE"));
    await app.sql("delete from attempts where subject = ?", [user.id]); // the lock of the account is tested below
  }
  const code = await authenticator.code();
  expect(await verifyMfa(app, tempToken, { code })).toMatchObject(refusal(401, "TICKET_INVALID"));
});

test("POST /auth/verify-mfa: five wrong codes lock the second factor, not the password", async () => {
  const { user, authenticator, post } = await setUpFactor(app);
  const tempToken = await mfaTokenFor(app, user);
  const answers = [];
  for (let i = 0; i < 6; i++) answers.push(await verifyMfa(app, tempToken, WRONG_CODE));
  expect(answers.map((a) => a.status)).toEqual([401, 401, 401, 401, 401, 423]);
  expect(answers[5]?.body.code).toBe("ACCOUNT_LOCKED");
  expect(Number(answers[5]?.headers.get("retry-after"))).toBeGreaterThan(890);
  expect((await signInBy(app, user, { code: await authenticator.code() })).status).toBe(423);
  expect((await post("/auth/disable-totp", { password: user.password, ...WRONG_CODE })).status).toBe(423);
  expect(await auditOf(app, user.id, "auth.locked")).toHaveLength(1);
  expect(await auditOf(app, user.id, "auth.mfa_failed")).toHaveLength(5);
  app.clock.advance("15m");
  expect((await signInBy(app, user, { code: await authenticator.code() })).status).toBe(200);
});

test("POST /auth/verify-mfa: a correct code restarts the count", async () => {
  const { user, authenticator } = await setUpFactor(app);
  for (let round = 0; round < 2; round++) {
    const tempToken = await mfaTokenFor(app, user);
    for (let i = 0; i < 4; i++) expect((await verifyMfa(app, tempToken, WRONG_CODE)).status).toBe(401);
    expect((await verifyMfa(app, tempToken, { code: await authenticator.code() })).status).toBe(200);
    app.clock.advance("30s"); // the next code
  }
});

test("POST /auth/verify-mfa: evaluates at most five codes of 30 at once from many addresses", async () => {
  const { user } = await setUpFactor(app);
  const tempToken = await mfaTokenFor(app, user);
  const answers = await Promise.all(times(30, () => verifyMfa(app, tempToken, WRONG_CODE)));
  expect(tally(answers, (a) => a.status)).toEqual({ 401: 5, 423: 25 });
});

test.each(["code", "backup code"])(
  "POST /auth/verify-mfa: 50 parallel uses of an MFA token and %s have one success",
  async (kind) => {
    for (let round = 0; round < repetitions(2); round++) {
      const { user, authenticator } = await setUpFactor(app);
      const tempToken = await mfaTokenFor(app, user);
      const backupCode = authenticator.backupCodes[round % 10];
      const factor = kind === "code" ? { code: await authenticator.code() } : { backupCode };
      const answers = await Promise.all(times(50, () => verifyMfa(app, tempToken, factor)));
      expect(tally(answers, (a) => a.status)).toEqual({ 200: 1, 401: 49 });
      expect(await app.sql("select id from sessions where user_id = ?", [user.id])).toHaveLength(2);
      const left = await app.sql("select digest from backup_codes where user_id = ?", [user.id]);
      expect(left).toHaveLength(kind === "code" ? 10 : 9);
    }
  },
);

test("POST /auth/verify-mfa: an MFA token that races a change of the password opens no session", async () => {
  for (let round = 0; round < 5; round++) {
    const { user, authenticator, post } = await setUpFactor(app);
    const tempToken = await mfaTokenFor(app, user);
    const code = await authenticator.code();
    const [changed, verified] = await Promise.all([
      post("/user/change-password", { currentPassword: user.password, newPassword: NEW_PASSWORD }),
      verifyMfa(app, tempToken, { code }),
    ]);
    expect(changed.status).toBe(200);
    if (verified.status === 200) expect(await profileStatusBy(app, verified.body.accessToken)).toBe(401);
    expect((await verifyMfa(app, tempToken, { backupCode: authenticator.backupCodes[0] })).status).toBe(401);
  }
});

test("POST /auth/verify-mfa: 100 wrong codes in a row lock codes until a backup code is used", async () => {
  const { user: old, authenticator } = await setUpConfirmedFactor(app, await app.addVerifiedUser());
  const tempToken = await mfaTokenFor(app, old);
  expect((await verifyMfa(app, tempToken, WRONG_CODE)).status).toBe(401);
  await app.mail.emailTo(old.email, /knows your password/);
  await app.sql("update attempts set consecutive = 99 where subject = ?", [old.id]);
  expect((await verifyMfa(app, tempToken, WRONG_CODE)).status).toBe(401);
  app.clock.advance("25h");
  expect((await resetPassword(app, await resetTokenFor(app, old.email))).status).toBe(200);
  const user = { ...old, credentials: { email: old.email, password: NEW_PASSWORD } };
  const again = await mfaTokenFor(app, user);
  const locked = await verifyMfa(app, again, { code: await authenticator.code() });
  expect(locked).toMatchObject({ status: 423, body: { message: expect.stringContaining("backup code") } });
  expect((await verifyMfa(app, again, { backupCode: "AAAA-AAAA" })).status).toBe(401);
  expect((await verifyMfa(app, again, { backupCode: authenticator.backupCodes[0] })).status).toBe(200);
  app.clock.advance("30s"); // the next code
  expect((await signInBy(app, user, { code: await authenticator.code() })).status).toBe(200);
});
