import { expect, test } from "vitest";
import { WRONG_CODE, WRONG_PASSWORD } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { invalid, refusal } from "../../support/http/responses.ts";
import { statusesOf } from "../../support/tally.ts";

const app = await testApp();
type Account = Awaited<ReturnType<typeof app.setUpFactor>>;

const disable = ({ post, user }: Account, body = {}) =>
  post("/auth/disable-totp", { password: user.password, ...body });
const renew = ({ post, user }: Account, body = {}) =>
  post("/auth/backup-codes", { password: user.password, ...body });

test("POST /auth/disable-totp: requires only the password until a code has been accepted, and invalidates MFA tokens", async () => {
  const account = await app.setUpFactor();
  const { email } = account.user;
  const tempToken = await app.mfaTokenFor(account.user);
  expect(await disable(account, { password: WRONG_PASSWORD })).toMatchObject(
    refusal(400, "INVALID_CURRENT_PASSWORD"),
  );
  expect(await disable(account)).toMatchObject({
    status: 200,
    body: { message: expect.any(String) },
  });
  const code = await account.authenticator.code();
  expect(await app.verifyMfa(tempToken, { code })).toMatchObject(refusal(401, "TICKET_INVALID"));
  expect((await app.login(email)).body.requiresMfa).toBe(false);
  await app.mail.emailTo(email, /Two-factor authentication is off/);
  expect(await disable(account)).toMatchObject(refusal(409, "MFA_NOT_ENABLED"));
});

test("POST /auth/disable-totp: requires a code or a backup code once a code has been accepted", async () => {
  const account = await app.setUpConfirmedFactor();
  expect(await disable(account)).toMatchObject(invalid("code"));
  expect(await disable(account, WRONG_CODE)).toMatchObject(refusal(401, "INVALID_CODE"));
  expect((await disable(account, { code: await account.authenticator.code() })).status).toBe(200);
  const other = await app.setUpConfirmedFactor();
  expect((await disable(other, { backupCode: other.authenticator.backupCodes[3] })).status).toBe(
    200,
  );
  expect(
    await app.sql("select digest from backup_codes where user_id = ?", [other.user.id]),
  ).toEqual([]);
});

test("POST /auth/backup-codes: creates a new set, invalidates the old one, and notifies the user by e-mail", async () => {
  const account = await app.setUpConfirmedFactor();
  const { status, body } = await renew(account, { code: await account.authenticator.code() });
  expect([status, Object.keys(body)]).toEqual([200, ["backupCodes"]]);
  expect(new Set(body.backupCodes).size).toBe(10);
  const { text } = await app.mail.emailTo(account.user.email, /New backup codes/);
  for (const code of body.backupCodes) expect(text).not.toContain(code);
  const [old] = account.authenticator.backupCodes;
  expect((await app.signInBy(account.user, { backupCode: old })).status).toBe(401);
  expect((await app.signInBy(account.user, { backupCode: body.backupCodes[0] })).status).toBe(200);
});

test("POST /auth/backup-codes: requires password and code, and accepts each code once, even concurrently", async () => {
  const account = await app.setUpConfirmedFactor();
  expect((await renew(account, { password: WRONG_PASSWORD, ...WRONG_CODE })).status).toBe(400);
  expect(await renew(account, WRONG_CODE)).toMatchObject(refusal(401, "INVALID_CODE"));
  expect((await renew(account)).status).toBe(400);
  const code = await account.authenticator.code();
  expect(await statusesOf(4, () => renew(account, { code }))).toEqual({ 200: 1, 401: 3 });
  const { user, post } = await app.signIn();
  const plain = await post("/auth/backup-codes", { password: user.password, ...WRONG_CODE });
  expect(plain).toMatchObject(refusal(409, "MFA_NOT_ENABLED"));
});
