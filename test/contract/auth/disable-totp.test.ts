import { expect, test } from "vitest";
import { testApp } from "../../support/app.ts";
import { mfaTokenFor, setUpFactor } from "../../support/authenticator.ts";
import { tally, times } from "../../support/until.ts";

const app = await testApp();
type Account = Awaited<ReturnType<typeof setUpFactor>>;

const disable = ({ browser, accessToken, user }: Account, body: object) =>
  browser.post("/auth/disable-totp", { password: user.password, ...body }, accessToken);
const renew = ({ browser, accessToken, user }: Account, body: object) =>
  browser.post("/auth/backup-codes", { password: user.password, ...body }, accessToken);

/** An account whose factor is confirmed by a first code. */
async function confirmed(): Promise<Account> {
  const account = await setUpFactor(app);
  const tempToken = await mfaTokenFor(app, account.user);
  const code = await account.authenticator.code();
  if ((await app.httpClient().post("/auth/verify-mfa", { tempToken, code })).status !== 200)
    throw new Error("not signed in");
  app.clock.advance("30s"); // the next code
  return account;
}

test("POST /auth/disable-totp: needs only the password until a code has been accepted", async () => {
  const account = await setUpFactor(app);
  expect(await disable(account, { password: "Wrong-1-guess" })).toMatchObject({
    status: 400,
    body: { code: "INVALID_CURRENT_PASSWORD" },
  });
  expect(await disable(account, {})).toMatchObject({ status: 200, body: { message: expect.any(String) } });
  const { body } = await app.httpClient().post("/auth/login", account.user.credentials);
  expect(body.requiresMfa).toBe(false);
  await app.mail.emailTo(account.user.email, /Two-factor sign-in is off/);
  expect(await disable(account, {})).toMatchObject({ status: 409, body: { code: "MFA_NOT_ENABLED" } });
});

test("POST /auth/disable-totp: needs a code or a backup code afterwards", async () => {
  const account = await confirmed();
  expect(await disable(account, {})).toMatchObject({ status: 400, body: { violations: [{ field: "code" }] } });
  expect(await disable(account, { code: "000000" })).toMatchObject({ status: 401, body: { code: "INVALID_CODE" } });
  expect((await disable(account, { code: await account.authenticator.code() })).status).toBe(200);
  const other = await confirmed();
  expect((await disable(other, { backupCode: other.authenticator.backupCodes[3] })).status).toBe(200);
  const left = await app.sql("select digest from backup_codes where user_id = ?", [other.user.id]);
  expect(left).toEqual([]);
});

test("POST /auth/disable-totp: voids pending MFA tokens", async () => {
  const account = await setUpFactor(app);
  const tempToken = await mfaTokenFor(app, account.user);
  expect((await disable(account, {})).status).toBe(200);
  const answer = await app
    .httpClient()
    .post("/auth/verify-mfa", { tempToken, code: await account.authenticator.code() });
  expect(answer).toMatchObject({ status: 401, body: { code: "TICKET_INVALID" } });
});

test("POST /auth/backup-codes: makes a new set, voids the old one, and notifies by mail", async () => {
  const account = await confirmed();
  const { status, body } = await renew(account, { code: await account.authenticator.code() });
  expect(status).toBe(200);
  expect(Object.keys(body)).toEqual(["backupCodes"]);
  expect(new Set(body.backupCodes).size).toBe(10);
  const { text } = await app.mail.emailTo(account.user.email, /New backup codes/);
  for (const code of body.backupCodes) expect(text).not.toContain(code);
  const attempt = async (backupCode: unknown) => {
    const tempToken = await mfaTokenFor(app, account.user);
    return (await app.httpClient().post("/auth/verify-mfa", { tempToken, backupCode })).status;
  };
  expect(await attempt(account.authenticator.backupCodes[0])).toBe(401);
  expect(await attempt(body.backupCodes[0])).toBe(200);
});

test("POST /auth/backup-codes: accepts a code once, under parallel use too", async () => {
  const account = await confirmed();
  const code = await account.authenticator.code();
  const answers = await Promise.all(times(4, () => renew(account, { code })));
  expect(tally(answers, (a) => a.status)).toEqual({ 200: 1, 401: 3 });
});

test("POST /auth/backup-codes: needs password and code, and counts failures of both", async () => {
  const account = await confirmed();
  expect((await renew(account, { password: "Wrong-1-guess", code: "000000" })).status).toBe(400);
  expect(await renew(account, { code: "000000" })).toMatchObject({ status: 401, body: { code: "INVALID_CODE" } });
  expect((await renew(account, {})).status).toBe(400);
  const plain = await app.signIn();
  const { password } = plain.user;
  const answer = await plain.browser.post("/auth/backup-codes", { password, code: "000000" }, plain.accessToken);
  expect(answer).toMatchObject({ status: 409, body: { code: "MFA_NOT_ENABLED" } });
});
