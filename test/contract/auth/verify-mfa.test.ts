import { expect, test } from "vitest";
import { testApp } from "../../support/app.ts";
import { mfaTokenFor, STEP_MS, setUpFactor } from "../../support/authenticator.ts";
import { invalid, refusal } from "../../support/failures.ts";
import { signInBy, verifyMfa, WRONG_CODE } from "../../support/second-factor.ts";
import { profileStatusBy } from "../../support/sessions.ts";

const app = await testApp();
const verify = (tempToken: string, factor: object) => verifyMfa(app, tempToken, factor);
const invalidCode = refusal(401, "INVALID_CODE");
const invalidTicket = refusal(401, "TICKET_INVALID");

test("POST /auth/login: with a second factor returns an MFA token and no tokens, user or cookie", async () => {
  const { user } = await setUpFactor(app);
  const { status, body, headers } = await app.httpClient().post("/auth/login", user.credentials);
  expect(status).toBe(200);
  expect(body).toEqual({ requiresMfa: true, tempToken: expect.any(String) });
  expect(headers.get("set-cookie")).toBeNull();
  const open = await app.sql("select id from sessions where user_id = ? and revoked_at is null", [user.id]);
  expect(open).toHaveLength(1);
});

test("POST /auth/verify-mfa: signs in with a code, once", async () => {
  const { user, authenticator } = await setUpFactor(app);
  const tempToken = await mfaTokenFor(app, user);
  const code = await authenticator.code();
  const answer = await verify(tempToken, { code });
  expect(answer.body).toEqual({
    accessToken: expect.any(String),
    refreshToken: expect.any(String),
    user: { id: user.id, email: user.email },
  });
  expect(answer.headers.get("set-cookie")).toMatch(/^refreshToken=.*Path=\/auth; HttpOnly; SameSite=Strict/);
  expect(await profileStatusBy(app, answer.body.accessToken)).toBe(200);
  expect(await verify(tempToken, { code })).toMatchObject(invalidTicket);
});

test("POST /auth/verify-mfa: accepts the previous, current and next code once, and no older one", async () => {
  const { user, authenticator } = await setUpFactor(app);
  const attempt = async (steps: number) =>
    (await signInBy(app, user, { code: await authenticator.code(steps) })).status;
  app.clock.advance(`${STEP_MS - (app.clock.now().getTime() % STEP_MS) + 1_000}ms`); // one second after the begin of a step
  for (const refused of [-2, 2]) expect(await attempt(refused)).toBe(401);
  for (const accepted of [-1, 1]) expect([await attempt(accepted), await attempt(accepted)]).toEqual([200, 401]);
  expect(await attempt(0)).toBe(401); // older than the last one
});

test("POST /auth/verify-mfa: accepts each backup code once, in any case and without the hyphen, and notifies the user", async () => {
  const { user, authenticator } = await setUpFactor(app);
  const [first, second] = authenticator.backupCodes as [string, string];
  const attempt = (backupCode: string) => signInBy(app, user, { backupCode });
  expect((await attempt(first.toLowerCase().replace("-", ""))).status).toBe(200);
  expect(await attempt(first)).toMatchObject(invalidCode);
  expect((await attempt(` ${second} `)).status).toBe(200);
  expect((await app.mail.emailTo(user.email, /backup code was used/)).text).toMatch(/; [89] are left/);
});

test("POST /auth/verify-mfa: needs exactly one of code and backupCode, and an MFA token", async () => {
  const { user, authenticator } = await setUpFactor(app);
  const tempToken = await mfaTokenFor(app, user);
  for (const factor of [{}, { code: "1", backupCode: "2" }]) {
    const message = "Invalid request: code must be given, or backupCode, but not both.";
    const body = { message, violations: [{ field: "code" }] };
    expect(await verify(tempToken, factor)).toMatchObject({ status: 400, body });
  }
  expect(await verify("", WRONG_CODE)).toMatchObject(invalid("tempToken"));
  expect(await verify("x.y.z", WRONG_CODE)).toMatchObject(invalidTicket);
  for (const code of ["12345", "1234567", "abcdef", "１２３４５６"])
    expect(await verify(tempToken, { code })).toMatchObject(invalidCode);
  expect((await verify(tempToken, { code: await authenticator.code() })).status).toBe(200);
});

test("POST /auth/verify-mfa: an MFA token ends after five minutes, with a newer one, and with the account", async () => {
  const { user, authenticator } = await setUpFactor(app);
  const replaced = await mfaTokenFor(app, user);
  const expired = await mfaTokenFor(app, user);
  expect(await verify(replaced, { code: await authenticator.code() })).toMatchObject(invalidTicket);
  app.clock.advance("5m");
  expect(await verify(expired, { code: await authenticator.code() })).toMatchObject(invalidTicket);
  const last = await mfaTokenFor(app, user);
  await app.sql("update users set deletion_at = '2000-01-01' where id = ?", [user.id]);
  expect(await verify(last, { code: await authenticator.code() })).toMatchObject(invalidTicket);
});
