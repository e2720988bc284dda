import { expect, test } from "vitest";
import { auditOf } from "../../support/admin.ts";
import { testApp } from "../../support/app.ts";
import { mfaTokenFor, setUpFactor } from "../../support/authenticator.ts";
import { repetitions } from "../../support/repeat.ts";
import { tally, times } from "../../support/until.ts";

const app = await testApp();
const verify = (tempToken: string, factor: object) =>
  app.httpClient().post("/auth/verify-mfa", { tempToken, ...factor });
const wrongCode = { code: "000000" };

test("POST /auth/verify-mfa: five wrong codes void an MFA token", async () => {
  const { user, authenticator } = await setUpFactor(app);
  const tempToken = await mfaTokenFor(app, user);
  for (let i = 0; i < 5; i++) {
    expect(await verify(tempToken, wrongCode)).toMatchObject({ status: 401, body: { code: "INVALID_CODE" } });
    await app.sql("delete from attempts where subject = ?", [user.id]); // the lock of the account is tested below
  }
  expect(await verify(tempToken, { code: await authenticator.code() })).toMatchObject({
    status: 401,
    body: { code: "TICKET_INVALID" },
  });
});

test("POST /auth/verify-mfa: five wrong codes lock the second factor, not the password", async () => {
  const { user, authenticator, browser, accessToken } = await setUpFactor(app);
  const tempToken = await mfaTokenFor(app, user);
  const answers = [];
  for (let i = 0; i < 6; i++) answers.push(await verify(tempToken, wrongCode));
  expect(answers.map((a) => a.status)).toEqual([401, 401, 401, 401, 401, 423]);
  expect(answers[5]?.body.code).toBe("ACCOUNT_LOCKED");
  expect(Number(answers[5]?.headers.get("retry-after"))).toBeGreaterThan(890);
  const again = await mfaTokenFor(app, user);
  expect((await verify(again, { code: await authenticator.code() })).status).toBe(423);
  const { password } = user;
  expect((await browser.post("/auth/disable-totp", { password, ...wrongCode }, accessToken)).status).toBe(423);
  expect(await auditOf(app, user.id, "auth.locked")).toHaveLength(1);
  expect(await auditOf(app, user.id, "auth.mfa_failed")).toHaveLength(5);
  app.clock.advance("15m");
  expect(await verify(await mfaTokenFor(app, user), { code: await authenticator.code() })).toMatchObject({
    status: 200,
  });
});

test("POST /auth/verify-mfa: a correct code restarts the count", async () => {
  const { user, authenticator } = await setUpFactor(app);
  for (let round = 0; round < 2; round++) {
    const tempToken = await mfaTokenFor(app, user);
    for (let i = 0; i < 4; i++) expect((await verify(tempToken, wrongCode)).status).toBe(401);
    expect((await verify(tempToken, { code: await authenticator.code() })).status).toBe(200);
    app.clock.advance("30s"); // the next code
  }
});

test("POST /auth/verify-mfa: evaluates at most five codes of 30 at once from many addresses", async () => {
  const { user } = await setUpFactor(app);
  const tempToken = await mfaTokenFor(app, user);
  const answers = await Promise.all(times(30, () => verify(tempToken, wrongCode)));
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
      const answers = await Promise.all(times(50, () => verify(tempToken, factor)));
      expect(tally(answers, (a) => a.status)).toEqual({ 200: 1, 401: 49 });
      expect(await app.sql("select id from sessions where user_id = ?", [user.id])).toHaveLength(2);
      const left = await app.sql("select digest from backup_codes where user_id = ?", [user.id]);
      expect(left).toHaveLength(kind === "code" ? 10 : 9);
    }
  },
);

test("POST /auth/verify-mfa: an MFA token that races a reset or a change of the password opens no session", async () => {
  for (let round = 0; round < 5; round++) {
    const { user, authenticator, browser, accessToken } = await setUpFactor(app);
    const tempToken = await mfaTokenFor(app, user);
    const change = { currentPassword: user.password, newPassword: "Brand-new-2" };
    const [changed, verified] = await Promise.all([
      browser.post("/user/change-password", change, accessToken),
      verify(tempToken, { code: await authenticator.code() }),
    ]);
    expect(changed.status).toBe(200);
    if (verified.status === 200) {
      expect((await app.httpClient().get("/user/profile", verified.body.accessToken)).status).toBe(401);
    }
    expect((await verify(tempToken, { backupCode: authenticator.backupCodes[0] })).status).toBe(401);
  }
});

test("POST /auth/verify-mfa: 100 wrong codes in a row lock codes until a backup code is used", async () => {
  const { user, authenticator } = await setUpFactor(app, await app.addVerifiedUser());
  expect((await verify(await mfaTokenFor(app, user), { code: await authenticator.code() })).status).toBe(200);
  const tempToken = await mfaTokenFor(app, user);
  expect((await verify(tempToken, wrongCode)).status).toBe(401);
  await app.mail.emailTo(user.email, /knows your password/);
  await app.sql("update attempts set consecutive = 99 where subject = ?", [user.id]);
  expect((await verify(tempToken, wrongCode)).status).toBe(401);
  app.clock.advance("25h");
  await app.httpClient().post("/auth/forgot-password", { email: user.email });
  const { token } = await app.mail.emailTo(user.email, /Reset/);
  const password = "Brand-new-2";
  expect((await app.httpClient().post("/auth/reset-password", { token, password })).status).toBe(200);
  const again = await mfaTokenFor(app, { ...user, credentials: { ...user.credentials, password } });
  const locked = await verify(again, { code: await authenticator.code() });
  expect(locked).toMatchObject({ status: 423, body: { message: expect.stringContaining("backup code") } });
  expect((await verify(again, { backupCode: "AAAA-AAAA" })).status).toBe(401);
  expect((await verify(again, { backupCode: authenticator.backupCodes[0] })).status).toBe(200);
  app.clock.advance("30s"); // the next code
  const next = await mfaTokenFor(app, { ...user, credentials: { ...user.credentials, password } });
  expect((await verify(next, { code: await authenticator.code() })).status).toBe(200);
});
