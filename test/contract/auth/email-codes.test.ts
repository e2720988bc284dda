// Codes by e-mail: how they sign in, how often they are guessed, and what a program that opens
// links can do.

import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { freshEmail, newAccount, PASSWORD, type TestUser } from "../../support/accounts.ts";
import { startSuiteApp, testApp } from "../../support/app.ts";
import { createAuthenticator } from "../../support/authenticator.ts";
import { withToken } from "../../support/http/client.ts";
import { fieldsIn, invalid, refusal } from "../../support/http/responses.ts";
import { passkeyActions } from "../../support/passkeys.ts";
import { statusesOf, tally, times } from "../../support/tally.ts";
import { spent } from "./compare-times.ts";

const app = await startSuiteApp({ env: { EMAIL_SIGN_IN: "code", RATE_LIMITS: "off" } });
const limited = await startSuiteApp({ env: { EMAIL_SIGN_IN: "code" } });
const off = { env: { EMAIL_SIGN_IN: "off" } };
const plain = await (process.env.TEST_FEATURES ? startSuiteApp(off) : testApp());
const passkeys = passkeyActions(app);

/** The least that an answer about an address takes, in ms: longer than any work for its account. */
const LEAST_MS = 95;
const WRONG = refusal(401, "INVALID_CODE");

const ask = (email: string, browser = app.httpClient()) =>
  browser.post("/auth/email-code", { email });

const verify = (proof: object, browser = app.httpClient()) =>
  browser.post("/auth/verify-email-code", proof);

/** The number of e-mails with a code that have arrived. */
const arrived = async (email: string) =>
  (await app.mail.emailsTo(email)).filter(({ subject }) => /code/.test(subject ?? "")).length;

/** Asks for a code and reads its e-mail. */
async function codeFor(email: string, browser = app.httpClient()) {
  const before = await arrived(email);
  const { status } = await ask(email, browser);
  if (status !== 200) throw new Error(`email-code answered ${status}`);
  await expect.poll(() => arrived(email)).toBe(before + 1);
  const mail = await app.mail.emailTo(email, /code/);
  const [, code = ""] = /Your code is (\d{6})/.exec(mail.text ?? "") ?? [];
  return { mail, code, token: mail.token as string, browser };
}

/** A code of six digits that is not the given one. */
const otherThan = (code: string, i = 1) => String((Number(code) + i) % 1_000_000).padStart(6, "0");

const sessionsOf = async ({ id }: Pick<TestUser, "id">) =>
  (await app.sql("select id from sessions where user_id = ?", [id])).length;

describe("POST /auth/verify-email-code", () => {
  test("signs in once with a typed code on any device, and with the link over gRPC", async () => {
    const user = await app.addVerifiedUser();
    const { code } = await codeFor(user.email);
    const typed = `${code.slice(0, 3)} ${code.slice(3)}`;
    const browser = app.httpClient();
    const { status, body } = await verify(
      { email: user.email.toUpperCase(), code: typed },
      browser,
    );
    expect([status, body.requiresMfa, body.user.id]).toEqual([200, false, user.id]);
    expect(Object.keys(body).sort()).toEqual([
      "accessToken",
      "refreshToken",
      "requiresMfa",
      "user",
    ]);
    expect([browser.cookies.has("refreshToken"), browser.cookies.has("device")]).toEqual([
      true,
      true,
    ]);
    const [session] = await withToken(browser, body.accessToken).sessions();
    expect(session.method).toBe("email-code");
    expect(await verify({ email: user.email, code })).toMatchObject(WRONG);
    const [event] = await app.auditOf(user.id, "auth.login");
    expect(event?.details).toEqual({ method: "email-code" });

    const { requestEmailCode, verifyEmailCode } = app.grpc(AuthService);
    app.clock.advance("6m");
    const { deviceToken } = await requestEmailCode({ email: user.email });
    await expect.poll(() => arrived(user.email)).toBe(2);
    const { token } = await app.mail.emailTo(user.email, /code/);
    await expect(verifyEmailCode({ token: token as string })).rejects.toThrow("enter the code");
    const answer = await verifyEmailCode({ token: token as string, deviceToken });
    expect(answer.user?.id).toBe(user.id);
  });

  test("the link signs in where the code was requested, and invalidates the code", async () => {
    const user = await app.addVerifiedUser();
    const { token, code, mail, browser } = await codeFor(user.email);
    expect(mail.link).toBe(`http://gatehouse.test/email-code#token=${token}`);
    expect((await verify({ token }, browser)).body.user.id).toBe(user.id);
    expect(await verify({ token }, browser)).toMatchObject(refusal(400, "TOKEN_INVALID"));
    expect(await verify({ email: user.email, code })).toMatchObject(WRONG);
  });

  test("a program that loads the link, runs its scripts and clicks gets no session, and does not invalidate the code", async () => {
    const user = await app.addVerifiedUser();
    const { token, code } = await codeFor(user.email);
    const scanner = app.httpClient();
    for (const method of ["GET", "HEAD"])
      expect((await fetch(`${app.url}/email-code#token=${token}`, { method })).status).toBe(200);
    const own = await app.signIn(); // a scanner with a device of its own
    for (const from of [scanner, own.browser])
      for (let i = 0; i < 6; i++)
        expect(await verify({ token }, from)).toMatchObject(refusal(400, "TOKEN_INVALID"));
    expect(await sessionsOf(user)).toBe(0);
    expect((await verify({ email: user.email, code })).status).toBe(200);
  });

  test("evaluates at most five of fifty concurrent guesses, and then the code is invalid", async () => {
    const user = await app.addVerifiedUser();
    const { code, token, browser } = await codeFor(user.email);
    const guesses = times(50, (i) => otherThan(code, 1 + (i % 6)));
    const answers = await Promise.all(
      guesses.map((guess) => verify({ email: user.email, code: guess })),
    );
    expect(tally(answers, ({ status, body }) => `${status} ${body.code}`)).toEqual({
      "401 INVALID_CODE": 50,
    });
    const [row] = await app.sql<{ failed: number }>(
      "select failed from one_time_tokens where user_id = ? and kind = 'email-code'",
      [user.id],
    );
    expect(row?.failed).toBe(5);
    expect(await verify({ email: user.email, code })).toMatchObject(WRONG);
    expect(await verify({ token }, browser)).toMatchObject(refusal(400, "TOKEN_INVALID"));
    const next = await codeFor(user.email);
    expect((await verify({ email: user.email, code: next.code })).status).toBe(200);
  });

  test("fifty concurrent requests with the right code open one session", async () => {
    const user = await app.addVerifiedUser();
    const { code } = await codeFor(user.email);
    const statuses = await statusesOf(50, () => verify({ email: user.email, code }));
    expect(statuses).toEqual({ 200: 1, 401: 49 });
    expect(await sessionsOf(user)).toBe(1);
  });

  test("rejects a code after ten minutes, for another account, and after a change of the address", async () => {
    const [user, other] = [await app.addVerifiedUser(), await app.addVerifiedUser()];
    const { code } = await codeFor(user.email);
    await codeFor(other.email);
    const mine = await verify({ email: other.email, code });
    expect(mine.status === 200 ? mine.body.user.id : mine.body.code).not.toBe(user.id);
    app.clock.advance("10m");
    expect(await verify({ email: user.email, code })).toMatchObject(WRONG);
    const { get: _, ...account } = await app.signIn(user);
    const next = await codeFor(user.email);
    const newEmail = freshEmail();
    await account.post("/user/change-email", { newEmail, password: PASSWORD });
    await app.verifyEmail((await app.mail.emailTo(newEmail)).token);
    expect(await verify({ email: newEmail, code: next.code })).toMatchObject(WRONG);
    expect(await verify({ token: next.token }, next.browser)).toMatchObject(
      refusal(400, "TOKEN_INVALID"),
    );
  });

  test("requires the second factor of the account", async () => {
    const { user, authenticator } = await app.setUpConfirmedFactor(await app.addVerifiedUser());
    const { code } = await codeFor(user.email);
    const { body } = await verify({ email: user.email, code });
    expect([body.requiresMfa, typeof body.tempToken, body.accessToken]).toEqual([
      true,
      "string",
      undefined,
    ]);
    const done = await app.verifyMfa(body.tempToken, { code: await authenticator.code() });
    const [session] = await withToken(app.httpClient(), done.body.accessToken).sessions();
    expect([done.status, session.method]).toEqual([200, "email-code"]);
  });

  test("works while strangers lock the account and for a pending deletion, not for a suspended account", async () => {
    const user = await app.addVerifiedUser();
    await (await app.signIn(user)).post("/user/delete-account", { password: PASSWORD });
    await app.lock(user.email);
    const first = await codeFor(user.email);
    const { status, body } = await verify({ email: user.email, code: first.code });
    expect([status, body.restored]).toEqual([200, true]);
    await app.sql("update users set suspended_at = now() where id = ?", [user.id]);
    app.clock.advance("6m");
    const { code } = await codeFor(user.email);
    expect(await verify({ email: user.email, code })).toMatchObject(
      refusal(403, "ACCOUNT_SUSPENDED"),
    );
    expect(await verify({ email: user.email, code: otherThan(code) })).toMatchObject(WRONG);
  });

  test("recovers a never-verified account: everything that somebody else has added is removed", async () => {
    const theirs = await app.signIn();
    const { email, id } = theirs.user;
    const authenticator = createAuthenticator();
    await passkeys.register(theirs, authenticator);
    const { code } = await codeFor(email);
    const owner = app.httpClient();
    const { body } = await verify({ email, code }, owner);
    expect(body.user.id).toBe(id);
    expect(await theirs.profileStatus()).toBe(401);
    expect((await app.login(email)).status).toBe(401);
    expect((await passkeys.signIn(authenticator)).status).toBe(401);
    const { get } = withToken(owner, body.accessToken);
    expect((await get("/user/profile")).body.emailVerified).toBe(true);
    expect((await get("/user/sign-in-methods")).body).toMatchObject({
      hasPassword: false,
      passkeys: 0,
      emailCode: true,
    });
    expect(await app.auditOf(id, "user.taken_back")).toHaveLength(1);
    expect((await app.mail.emailTo(email, /is now yours/)).text).toContain(
      "your e-mail address is yours",
    );
  });

  test("verifies the address of an account on a known device, and keeps everything else", async () => {
    const { user, browser, ...account } = await app.signIn();
    const { code } = await codeFor(user.email);
    expect((await verify({ email: user.email, code }, browser)).status).toBe(200);
    expect((await account.get("/user/profile")).body.emailVerified).toBe(true);
    expect((await app.login(user.email)).status).toBe(200);
  });

  test.for([
    [{}, "code"],
    [{ email: "a@example.com" }, "code"],
    [{ code: "123456" }, "code"],
    [{ email: "a@example.com", code: "123456", token: "abc" }, "code"],
    [{ email: "a@example.com", code: "12345" }, "code"],
    [{ email: "a@example.com", code: "12345a" }, "code"],
    [{ email: "nobody", code: "123456" }, "email"],
    [{ token: "" }, "token"],
  ] as const)("rejects %j", async ([proof, field]) => {
    expect(await verify(proof)).toMatchObject(invalid(field));
  });

  test("rejects a request from another site", async () => {
    const headers = { origin: "https://evil.example", "sec-fetch-site": "cross-site" };
    const body = { email: freshEmail(), code: "123456" };
    const answer = await app.httpClient().send("POST", "/auth/verify-email-code", body, headers);
    expect(answer).toMatchObject(refusal(403, "CROSS_SITE"));
  });
});

describe("POST /auth/email-code", () => {
  test("responds to known and unknown addresses alike, with a cookie, and so does the guess", async () => {
    const user = await app.addVerifiedUser();
    const seen = [];
    for (const email of [user.email, freshEmail()]) {
      const asked = await ask(email);
      const guessed = await verify({ email, code: "000000" });
      const namesOf = ({ headers }: typeof asked) => [...headers.keys()];
      seen.push([
        asked.status,
        asked.body,
        namesOf(asked),
        guessed.status,
        guessed.body,
        namesOf(guessed),
      ]);
    }
    expect(seen[0]).toEqual(seen[1]);
    expect(seen[0]?.slice(0, 2)).toEqual([200, { message: expect.any(String) }]);
  });

  test("takes a least time that hides the work, for known and unknown addresses, and so does the guess", async () => {
    const { email } = await app.addVerifiedUser();
    const actions = [ask, (address: string) => verify({ email: address, code: "000000" })];
    for (const action of actions)
      for (const address of [email, freshEmail()])
        expect(await spent(() => action(address))).toBeGreaterThan(LEAST_MS);
  });

  test("mails the same code again within five minutes, and a new one after that", async () => {
    const user = await app.addVerifiedUser();
    const [first, second] = [await codeFor(user.email), await codeFor(user.email)];
    expect(second.code).toBe(first.code);
    app.clock.advance("6m");
    const third = await codeFor(user.email);
    expect(third.token).not.toBe(first.token);
    expect(await verify({ token: first.token }, first.browser)).toMatchObject(
      refusal(400, "TOKEN_INVALID"),
    );
    expect((await verify({ token: third.token }, third.browser)).status).toBe(200);
  });

  test("stores neither code nor token", async () => {
    const user = await app.addVerifiedUser();
    const { code, token } = await codeFor(user.email);
    const rows = await app.sql("select * from emails where user_id = ?", [user.id]);
    const events = await app.sql("select * from audit_events where user_id = ?", [user.id]);
    const stored = JSON.stringify([rows, events]);
    expect(stored).not.toContain(token);
    expect(stored).not.toMatch(new RegExp(`(?<![\\w-])${code}(?![\\w-])`));
    expect((await app.mail.emailTo(user.email, /code/)).text).not.toMatch(/by hand/);
    expect(await app.auditOf(user.id, "auth.email_code_requested")).toHaveLength(1);
  });

  test("sends at most five e-mails an hour to an account, even with rate limits off", async () => {
    const user = await app.addVerifiedUser();
    for (let i = 0; i < 8; i++) {
      expect((await ask(user.email)).status).toBe(200);
      app.clock.advance("5m");
    }
    await expect.poll(() => arrived(user.email)).toBe(5);
    expect(await app.auditOf(user.id, "auth.email_code_requested")).toHaveLength(5);
    app.clock.advance("25m");
    await codeFor(user.email);
  });

  test("allows three requests an hour per address and account, and ten guesses in fifteen minutes", async () => {
    const { email } = await limited.addVerifiedUser();
    const browser = limited.httpClient();
    for (const status of [200, 200, 200, 429])
      expect((await browser.post("/auth/email-code", { email })).status).toBe(status);
    for (let i = 0; i < 10; i++)
      expect(
        (await browser.post("/auth/verify-email-code", { email, code: "000000" })).status,
      ).toBe(401);
    const refused = await browser.post("/auth/verify-email-code", { email, code: "000000" });
    expect(refused.status).toBe(429);
  });
});

describe("EMAIL_SIGN_IN", () => {
  test("off: both routes are 404, and registration requires a password", async () => {
    const email = freshEmail();
    expect(await plain.httpClient().post("/auth/email-code", { email })).toMatchObject(
      refusal(404, "NOT_FOUND"),
    );
    const proof = { email, code: "123456" };
    expect(await plain.httpClient().post("/auth/verify-email-code", proof)).toMatchObject(
      refusal(404, "NOT_FOUND"),
    );
    const { password: _, ...account } = newAccount();
    expect(fieldsIn(await plain.httpClient().post("/auth/register", account))).toEqual([
      "password",
    ]);
    const methods = await plain.httpClient().get("/auth/sign-in-methods");
    expect(methods.body.emailCode).toBe(false);
  });

  test("code: an account can be registered without a password, and its owner signs in with a code", async () => {
    const { password: _, ...account } = newAccount();
    const { status, body } = await app.httpClient().post("/auth/register", account);
    expect(status).toBe(201);
    expect((await app.login(account.email, PASSWORD)).status).toBe(401);
    const { code } = await codeFor(account.email);
    const signedIn = await verify({ email: account.email, code });
    expect(signedIn.body.user.id).toBe(body.userId);
    const { get } = withToken(app.httpClient(), signedIn.body.accessToken);
    expect((await get("/user/sign-in-methods")).body).toMatchObject({
      hasPassword: false,
      emailCode: true,
    });
    const weak = newAccount({ password: "x" });
    expect(fieldsIn(await app.httpClient().post("/auth/register", weak))).toEqual(["password"]);
    expect((await app.httpClient().get("/auth/sign-in-methods")).body.emailCode).toBe(true);
  });

  test("code: the last other way in can be removed once the address is verified", async () => {
    const unverified = await app.signIn();
    expect(await unverified.delete("/user/password")).toMatchObject(
      refusal(409, "LAST_SIGN_IN_METHOD"),
    );
    const verified = await app.signIn(await app.addVerifiedUser());
    expect((await verified.delete("/user/password")).status).toBe(200);
  });
});
