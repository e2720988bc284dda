import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { WRONG_PASSWORD } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { refusal } from "../../support/http/responses.ts";
import { isMissing } from "../../support/suites.ts";
import { statusesOf } from "../../support/tally.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const app = await testApp();

test("POST /auth/setup-totp: returns secret, QR code and ten backup codes, and notifies the user", async () => {
  const { user, get, authenticator } = await app.setUpFactor();
  expect(authenticator.secret).toMatch(/^[A-Z2-7]{32}$/);
  expect(authenticator.qrCode).toMatch(/^data:image\/png;base64,/);
  expect(new Set(authenticator.backupCodes).size).toBe(10);
  for (const code of authenticator.backupCodes)
    expect(code).toMatch(/^[23456789A-HJKMNP-TV-Z]{4}-[23456789A-HJKMNP-TV-Z]{4}$/);
  expect((await get("/user/profile")).body.mfaEnabled).toBe(true);
  expect((await app.mail.emailTo(user.email, /Two-factor authentication is on/)).text).toMatch(
    /^Hello,/,
  );
});

test.skipIf(isMissing("oathtool"))(
  "POST /auth/setup-totp: a SHA-1 code of oathtool signs in",
  async () => {
    const { user, authenticator } = await app.setUpFactor();
    const now = app.clock.now().toISOString().replace("T", " ").replace(/\..*/, " UTC");
    const code = execFileSync("oathtool", ["--totp=sha1", "-b", authenticator.secret, "--now", now])
      .toString()
      .trim();
    expect((await app.signInBy(user, { code })).status).toBe(200);
  },
);

test.skipIf(isMissing("zbarimg"))("POST /auth/setup-totp: zbarimg reads the QR code", async () => {
  const { user, authenticator } = await app.setUpFactor();
  const file = join(temporaryFolder(), "qr.png");
  writeFileSync(file, Buffer.from(authenticator.qrCode.split(",")[1] as string, "base64"));
  const read = execFileSync("zbarimg", ["-q", "--raw", file], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const uri = new URL(read.toString().trim());
  expect([uri.protocol, uri.host]).toEqual(["otpauth:", "totp"]);
  expect(decodeURIComponent(uri.pathname)).toBe(`/Gatehouse:${user.email}`);
  expect(Object.fromEntries(uri.searchParams)).toMatchObject({
    secret: authenticator.secret,
    issuer: "Gatehouse",
  });
});

const CONFIRMATIONS = [
  { by: "a sign-in", path: "/auth/verify-mfa" },
  { by: "new backup codes", path: "/auth/backup-codes" },
];
test.for(CONFIRMATIONS)(
  "GET /user/profile: mfaConfirmed is absent, false after the set-up, true after a first code for $by, absent when off",
  async ({ path }) => {
    const user = await app.addUser();
    const before = await app.signIn(user);
    const stateOf = async ({ get }: Pick<typeof before, "get">) =>
      (await get("/user/profile")).body.mfaConfirmed;
    expect(await stateOf(before)).toBeUndefined();
    const { authenticator, ...account } = await app.setUpFactor(user);
    expect(await stateOf(account)).toBe(false);
    const { backupCodes } = authenticator;
    await app.signInBy(user, { backupCode: backupCodes[0] });
    expect(await stateOf(account)).toBe(false); // it does not prove that the authenticator works
    const code = await authenticator.code();
    const { password } = user;
    if (path === "/auth/verify-mfa") await app.signInBy(user, { code });
    else await account.post(path, { password, code });
    expect(await stateOf(account)).toBe(true);
    app.clock.advance("30s"); // the next code
    await account.post("/auth/disable-totp", { password, code: await authenticator.code() });
    expect(await stateOf(account)).toBeUndefined();
  },
);

// a backup code does not prove that the authenticator works, so it does not count as the first code
test("POST /auth/setup-totp: replaces secret and codes until a first code is accepted, and is 409 afterwards", async () => {
  const first = await app.setUpFactor();
  const { user, post } = first;
  const { body: second } = await post("/auth/setup-totp");
  expect(second.secret).not.toBe(first.authenticator.secret);
  const tempToken = await app.mfaTokenFor(user);
  const verify = async (factor: object) => (await app.verifyMfa(tempToken, factor)).status;
  expect(await verify({ code: await first.authenticator.code() })).toBe(401);
  expect(await verify({ backupCode: first.authenticator.backupCodes[0] })).toBe(401);
  expect(await verify({ backupCode: second.backupCodes[0] })).toBe(200);
  const { body: third } = await post("/auth/setup-totp");
  expect((await app.signInBy(user, { code: await app.authenticatorOf(third).code() })).status).toBe(
    200,
  );
  expect(await post("/auth/setup-totp")).toMatchObject(refusal(409, "MFA_ALREADY_ENABLED"));
});

test("POST /auth/setup-totp: sends at most five e-mails an hour to an address", async () => {
  const { user, post } = await app.setUpFactor();
  expect(await statusesOf(9, () => post("/auth/setup-totp"))).toEqual({ 200: 9 });
  const count =
    "select count(*)::int as n from emails where user_id = ? and template = 'mfa-enabled'";
  expect(await app.sql(count, [user.id])).toEqual([{ n: 5 }]);
});

test("POST /auth/setup-totp: requires the password once the sign-in is 15 minutes old, even after refreshes", async () => {
  const { user, browser, post } = await app.signIn();
  const setUp = async (body?: object) =>
    browser.post("/auth/setup-totp", body, (await browser.post("/auth/refresh")).body.accessToken);
  app.clock.advance("14m");
  expect((await post("/auth/setup-totp")).status).toBe(200);
  app.clock.advance("2m");
  for (const body of [undefined, {}])
    expect(await setUp(body)).toMatchObject(refusal(403, "REAUTHENTICATION_REQUIRED"));
  expect(await setUp({ password: WRONG_PASSWORD })).toMatchObject(
    refusal(400, "INVALID_CURRENT_PASSWORD"),
  );
  expect((await setUp({ password: user.password })).body.backupCodes).toHaveLength(10);
});
