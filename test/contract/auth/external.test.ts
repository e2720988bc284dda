import { randomUUID } from "node:crypto";
import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import type { SimulatedAccount } from "../../../scripts/simulators/sign-in-provider.ts";
import { NEW_PASSWORD } from "../../support/accounts.ts";
import {
  type Answer,
  githubAccount,
  googleAccount,
  RETURN_URLS,
  startExternalApp,
} from "../../support/external.ts";
import { sendHttp, withToken } from "../../support/http/client.ts";
import { clientAt } from "../client/clients.ts";

const { app, main, start, answerOf, finish, signInBy, prove, identitiesOf, userIdOf } =
  await startExternalApp();

test("GET /auth/sign-in-methods: lists the configured providers", async () => {
  const { body } = await app.httpClient().get("/auth/sign-in-methods");
  expect(body.providers).toEqual([
    { id: "google", name: "Google" },
    { id: "github", name: "GitHub" },
    { id: "microsoft", name: "Microsoft" },
    { id: "apple", name: "Apple" },
    { id: "acme", name: "Acme" },
    { id: "staff", name: "Staff" },
    { id: "school", name: "School" },
  ]);
});

test("POST /auth/start-external: requests a code with PKCE, state and nonce, and sets the device cookie", async () => {
  const browser = app.httpClient();
  const { body, headers } = await start(browser);
  const url = new URL(body.authorizationUrl);
  expect(Object.fromEntries(url.searchParams)).toMatchObject({
    response_type: "code",
    redirect_uri: "http://gatehouse.test/auth/external/google/callback",
    scope: "openid email profile",
    code_challenge_method: "S256",
    nonce: expect.any(String),
    state: expect.stringMatching(/^0\./),
  });
  expect(url.searchParams.has("prompt")).toBe(false);
  expect(headers.get("set-cookie")).toMatch(
    /^device=[\w-]{43}; Max-Age=34560000; Path=\/auth; HttpOnly; SameSite=Strict$/,
  );
  expect(body).toEqual({ authorizationUrl: expect.any(String) });
  const device = browser.cookies.get("device");
  await start(browser);
  expect(browser.cookies.get("device")).toBe(device);
});

test("POST /auth/start-external: is 404 for an unknown provider", async () => {
  const { status, body } = await start(app.httpClient(), { provider: "nobody" });
  expect([status, body.code]).toEqual([404, "NOT_FOUND"]);
});

test("POST /auth/finish-external: creates a verified account, and signs in to it the next time", async () => {
  const account = googleAccount();
  const browser = app.httpClient();
  const first = await signInBy(account, { browser });
  expect(first.status).toBe(200);
  expect(first.body).toMatchObject({
    requiresMfa: false,
    user: { email: account.email, name: "Ann Example", role: "user" },
  });
  expect(browser.cookies.get("refreshToken")).toBe(first.body.refreshToken);
  const { get } = withToken(browser, first.body.accessToken);
  expect((await get("/user/profile")).body).toMatchObject({ emailVerified: true });
  expect((await get("/user/sign-in-methods")).body).toMatchObject({
    hasPassword: false,
    identities: 1,
  });
  expect((await get("/user/sessions")).body[0]).toMatchObject({ method: "external" });
  const again = await signInBy({ ...account, email: "new.address@gmail.com" });
  expect(again.body.user).toMatchObject({ id: first.body.user.id, email: account.email });
  expect(await identitiesOf(first.body.user.id)).toEqual([
    { provider: "google", subject: account.sub, email: "new.address@gmail.com" },
  ]);
  const [added] = await app.auditOf(first.body.user.id, "user.identity_added");
  expect(added?.details).toMatchObject({ provider: "google", how: "create" });
  expect(await app.auditOf(first.body.user.id, "auth.register")).toHaveLength(1);
  const [login] = await app.auditOf(first.body.user.id, "auth.login");
  expect(login?.details).toEqual({ method: "external" });
});

test("POST /auth/finish-external: signs in with GitHub, which has no ID tokens", async () => {
  const account = githubAccount(`octo-${Date.now()}@example.com`, true);
  const { status, body } = await signInBy(account, { provider: "github" });
  expect(status).toBe(200);
  expect(await identitiesOf(body.user.id)).toMatchObject([{ subject: account.sub }]);
});

test("POST /auth/finish-external: signs in with Apple, whose secret is signed and whose flags are strings", async () => {
  const account = googleAccount({
    email: `${randomUUID()}@privaterelay.example`,
    email_verified: "true",
  });
  const { body: begun } = await start(app.httpClient(), { provider: "apple" });
  expect(new URL(begun.authorizationUrl).searchParams.get("response_mode")).toBe("form_post");
  const { status, body } = await signInBy(account, { provider: "apple" });
  expect(status).toBe(200);
  const { get } = withToken(app.httpClient(), body.accessToken);
  expect((await get("/user/profile")).body.emailVerified).toBe(true);
});

test.for([
  {
    what: "the name that Apple tells once",
    appleName: { firstName: "Ann", lastName: "Lee" },
    name: "Ann Lee",
  },
  { what: "one without a last name", appleName: { firstName: "Ann" }, name: "Ann" },
  { what: "the local part without a name", appleName: undefined, name: "ann.example" },
  {
    what: "the local part for a name that is none",
    appleName: { firstName: " ", lastName: "\u0000" },
    name: "ann.example",
  },
])(
  "POST /auth/finish-external: a new account from Apple has $what",
  async ({ appleName, name }) => {
    const email = `ann.example@${randomUUID()}.example`;
    const account = { sub: randomUUID(), email, email_verified: "true", appleName };
    const { status, body } = await signInBy(account, { provider: "apple" });
    expect([status, body.user?.name]).toEqual([200, name]);
    const again = await signInBy(
      { ...account, appleName: { firstName: "Eve" } },
      { provider: "apple" },
    );
    expect(again.body.user).toMatchObject({ id: body.user.id, name }); // a name is told once
  },
);

test.for(["{", "null", '"Ann"', '{"name":"Ann"}', '{"name":{"firstName":{}}}', "[]", ""])(
  "POST /auth/finish-external: ignores %j next to Apple's code, and takes no address from there",
  async (user) => {
    const email = `ann.example@${randomUUID()}.example`;
    const browser = app.httpClient();
    const account = { sub: randomUUID(), email, email_verified: true };
    const answer = await answerOf(browser, account, { provider: "apple" });
    const { status, body } = await finish(browser, { ...answer, user });
    expect([status, body.user?.name]).toEqual([200, "ann.example"]);
  },
);

test("POST /auth/finish-external: an address that Apple posts proves nothing, and a posted name is ignored for other providers", async () => {
  const victim = await app.addUser();
  const user = JSON.stringify({ name: { firstName: "Eve" }, email: victim.email });
  const browser = app.httpClient();
  const account = googleAccount({ name: undefined });
  const apple = await answerOf(
    browser,
    { ...account, email_verified: "true" },
    { provider: "apple" },
  );
  const { body } = await finish(browser, { ...apple, user });
  expect(body.user).toMatchObject({ email: account.email, name: "Eve" });
  const own = googleAccount({ name: undefined, email: `ann.example.${Date.now()}@gmail.com` });
  const google = await finish(browser, { ...(await answerOf(browser, own)), user });
  expect(google.body.user.name).toBe(own.email?.split("@")[0]);
});

test("AuthService/StartExternal, FinishExternal: sign in over gRPC, with the device token as a field", async () => {
  const { startExternal, finishExternal } = app.grpc(AuthService);
  const account = googleAccount();
  const begun = await startExternal({ provider: "google", acceptTerms: true });
  const { code, state, iss } = main.authorize(begun.authorizationUrl, account);
  const answer = {
    provider: "google",
    code: code as string,
    state: state as string,
    iss: iss as string,
  };
  await expect(finishExternal(answer)).rejects.toThrow("start again");
  const { deviceToken } = begun;
  const { user, accessToken } = await finishExternal({ ...answer, deviceToken });
  expect([user?.email, typeof accessToken]).toEqual([account.email, "string"]);
});

describe("An app with a scheme of its own and its own cookie jar", () => {
  const [, scheme = ""] = RETURN_URLS;

  /**
   * Signs in at the provider in the system browser, which has no cookies of the app. Returns what
   * it opens.
   */
  async function inSystemBrowser(authorizationUrl: string, account: SimulatedAccount) {
    main.visitedBy(account);
    const shown = await fetch(authorizationUrl, { redirect: "manual" });
    main.visitedBy(undefined);
    const callback = new URL(shown.headers.get("location") ?? "");
    const forwarded = await sendHttp(app.url, "GET", callback.pathname + callback.search);
    expect([forwarded.status, forwarded.headers.get("set-cookie")]).toEqual([303, null]);
    return forwarded.headers.get("location") ?? "";
  }

  /** Reads the answer in what the operating system passes to the app. */
  const answerIn = (opened: string) =>
    Object.fromEntries(new URLSearchParams(opened.split("#")[1])) as Answer;

  test("signs in, refreshes, connects another identity and confirms with it, over REST", async () => {
    const phone = app.httpClient();
    const account = googleAccount();
    const begun = await start(phone, { returnTo: scheme });
    const opened = await inSystemBrowser(begun.body.authorizationUrl, account);
    expect(opened.startsWith(`${scheme}#provider=google&code=`)).toBe(true);
    const thief = app.httpClient(); // another app with the same scheme
    await start(thief);
    const stolen = await finish(thief, answerIn(opened));
    expect([stolen.status, stolen.body.code]).toEqual([401, "EXTERNAL_FAILED"]);
    const { status, body } = await finish(phone, answerIn(opened));
    expect([status, body.user?.email]).toEqual([200, account.email]);
    expect((await phone.post("/auth/refresh")).status).toBe(200);

    const own = withToken(phone, body.accessToken);
    const other = googleAccount();
    const prove = async (who: SimulatedAccount) => {
      const { body: proving } = await start(phone, { returnTo: scheme, purpose: "prove" });
      const page = await inSystemBrowser(proving.authorizationUrl, who);
      return (await finish(phone, answerIn(page))).body.identityToken as string;
    };
    const connected = await own.post("/auth/connect-identity", {
      identityToken: await prove(other),
    });
    expect([connected.status, connected.body.identity.email]).toEqual([201, other.email]);
    const confirmed = await own.post("/auth/confirm", { identityToken: await prove(other) });
    expect(confirmed.status).toBe(200);
    const again = app.httpClient();
    const back = await start(again, { returnTo: scheme });
    const answer = answerIn(await inSystemBrowser(back.body.authorizationUrl, other));
    expect((await finish(again, answer)).body.user.id).toBe(body.user.id);
  });

  test("learns that its user has refused, and begins again", async () => {
    const phone = app.httpClient();
    const { body } = await start(phone, { returnTo: scheme });
    const refused = await fetch(body.authorizationUrl, { redirect: "manual" }); // nobody signs in
    const callback = new URL(refused.headers.get("location") ?? "");
    const forwarded = await sendHttp(app.url, "GET", callback.pathname + callback.search);
    const answer = answerIn(forwarded.headers.get("location") ?? "");
    expect(answer).toMatchObject({ provider: "google", error: "access_denied" });
    const failed = await finish(phone, answer);
    expect([failed.status, failed.body.code]).toEqual([401, "EXTERNAL_FAILED"]);
    const begun = await start(phone, { returnTo: scheme });
    const opened = await inSystemBrowser(begun.body.authorizationUrl, googleAccount());
    expect((await finish(phone, answerIn(opened))).status).toBe(200);
  });

  test("signs in with the client without cookies, even if the system has ended the app in the meantime", async () => {
    let kept: string | undefined;
    const deviceToken = {
      get: () => kept,
      set(token: string | undefined) {
        kept = token;
      },
    };
    const account = googleAccount();
    const request = { provider: "google", returnTo: scheme, acceptTerms: true };
    const { authorizationUrl } = await clientAt(app.url, { deviceToken }).auth.startExternal(
      request,
    );
    const answer = answerIn(await inSystemBrowser(authorizationUrl, account));
    await expect(clientAt(app.url).auth.finishExternal(answer)).rejects.toMatchObject({
      code: "EXTERNAL_FAILED",
    });
    const client = clientAt(app.url, { deviceToken });
    expect((await client.auth.finishExternal(answer)).user?.email).toBe(account.email);
    expect(await client.user.listDevices()).toMatchObject([{ current: true }]);
  });

  test("signs in over gRPC, where it keeps the device token itself", async () => {
    const { startExternal, finishExternal } = app.grpc(AuthService);
    const account = googleAccount();
    const request = { provider: "google", returnTo: scheme, acceptTerms: true };
    const { authorizationUrl, deviceToken } = await startExternal(request);
    const answer = answerIn(await inSystemBrowser(authorizationUrl, account));
    await expect(finishExternal(answer)).rejects.toMatchObject({ code: Code.Unauthenticated });
    const { user } = await finishExternal({ ...answer, deviceToken });
    expect(user?.email).toBe(account.email);
  });
});

test("POST /auth/finish-external: respects the rules of a provider about new accounts", async () => {
  const refused = [
    await signInBy(googleAccount(), { provider: "staff" }),
    await signInBy(googleAccount(), { provider: "school" }),
  ];
  for (const { status, body } of refused)
    expect([status, body.code]).toEqual([403, "SIGN_UP_CLOSED"]);
  const pupil = googleAccount({ email: `${randomUUID()}@school.example` });
  expect((await signInBy(pupil, { provider: "school" })).status).toBe(200);
  const member = await app.signIn();
  const account = googleAccount();
  const identityToken = await prove(member.browser, account, "staff");
  expect((await member.post("/auth/connect-identity", { identityToken })).status).toBe(201);
  expect((await signInBy(account, { provider: "staff" })).body.user.id).toBe(member.user.id);
});

test("POST /auth/finish-external: an unproven address creates an unverified account and sends a verification e-mail", async () => {
  const account = googleAccount({ email_verified: false });
  const { body } = await signInBy(account);
  const [user] = await app.sql<{ email_verified_at: Date | null }>(
    "select email_verified_at from users where id = ?",
    [body.user.id],
  );
  expect(user?.email_verified_at).toBeNull();
  const { token } = await app.mail.emailTo(account.email as string, /Verify/);
  expect((await app.verifyEmail(token)).status).toBe(200);
});

test("POST /auth/finish-external: a new account requires accepted terms", async () => {
  const { status, body } = await signInBy(googleAccount(), { acceptTerms: false });
  expect([status, body.violations?.[0]?.field]).toEqual([400, "acceptTerms"]);
});

test("POST /auth/finish-external: a new account requires an e-mail address", async () => {
  const { status, body } = await signInBy(googleAccount({ email: undefined }));
  expect([status, body.code]).toEqual([400, "EXTERNAL_EMAIL_MISSING"]);
});

test("POST /auth/finish-external: requires the second factor of the account", async () => {
  const account = googleAccount();
  const { body: first } = await signInBy(account);
  const owner = withToken(app.httpClient(), first.accessToken);
  const setup = await owner.post("/auth/setup-totp");
  const authenticator = app.authenticatorOf(setup.body);
  const browser = app.httpClient();
  const { body } = await signInBy(account, { browser });
  expect(body).toMatchObject({ requiresMfa: true, tempToken: expect.any(String) });
  expect(browser.cookies.has("refreshToken")).toBe(false);
  const done = await app.verifyMfa(body.tempToken, { code: await authenticator.code() });
  expect(done.status).toBe(200);
  const claims = JSON.parse(
    Buffer.from(done.body.accessToken.split(".")[1], "base64url").toString(),
  );
  expect(claims.amr).toEqual(["otp", "mfa"]);
  const [session] = await app.sql<{ methods: string[] }>(
    "select methods from sessions where user_id = ? order by id desc limit 1",
    [first.user.id],
  );
  expect(session?.methods).toEqual(["external", "totp"]);
});

test("POST /auth/connect-identity: connects after a usual sign-in, and the identity then signs in", async () => {
  const user = await app.addVerifiedUser();
  const account = googleAccount({ email: user.email, hd: "example.com" });
  const { user: _, browser, ...own } = await app.signIn(user);
  const { body } = await signInBy(account, { browser });
  expect(Object.keys(body).sort()).toEqual(["identityToken", "requiresMfa"]);
  const { identityToken } = body;
  const { status, body: connected } = await own.post("/auth/connect-identity", { identityToken });
  expect(status).toBe(201);
  expect(connected.identity).toMatchObject({ provider: "google", email: user.email });
  expect((await own.get("/user/identities")).body).toEqual([connected.identity]);
  await app.mail.emailTo(user.email, /connected/);
  expect((await signInBy(account)).body.user.id).toBe(user.id);
  const used = await own.post("/auth/connect-identity", { identityToken });
  expect([used.status, used.body.code]).toEqual([401, "EXTERNAL_FAILED"]);
});

test("POST /auth/connect-identity: rejects the token on another device, after 10 minutes, and without a recent sign-in", async () => {
  const { browser, post } = await app.signIn();
  const other = await app.signIn();
  const identityToken = await prove(browser, googleAccount());
  const elsewhere = await other.post("/auth/connect-identity", { identityToken });
  expect([elsewhere.status, elsewhere.body.code]).toEqual([401, "EXTERNAL_FAILED"]);
  app.clock.advance("10m");
  const late = await post("/auth/connect-identity", { identityToken });
  expect([late.status, late.body.code]).toEqual([401, "EXTERNAL_FAILED"]);
  app.clock.advance("6m");
  const { body } = await browser.post("/auth/refresh");
  const refreshed = withToken(browser, body.accessToken);
  const old = await refreshed.post("/auth/connect-identity", { identityToken: "x" });
  expect([old.status, old.body.code]).toEqual([403, "REAUTHENTICATION_REQUIRED"]);
});

test("POST /auth/confirm: accepts an identity of the caller that was proven again", async () => {
  const account = googleAccount();
  const browser = app.httpClient();
  const { body } = await signInBy(account, { browser });
  expect(body.user.email).toBe(account.email);
  app.clock.advance("16m");
  const refreshed = await browser.post("/auth/refresh");
  const own = withToken(browser, refreshed.body.accessToken);
  const stale = await own.put("/user/password", { newPassword: NEW_PASSWORD });
  expect([stale.status, stale.body.code]).toEqual([403, "REAUTHENTICATION_REQUIRED"]);
  const foreign = await prove(browser, googleAccount());
  const refused = await own.post("/auth/confirm", { identityToken: foreign });
  expect([refused.status, refused.body.code]).toEqual([401, "EXTERNAL_FAILED"]);
  const identityToken = await prove(browser, account);
  expect((await own.post("/auth/confirm", { identityToken })).status).toBe(200);
  expect((await own.put("/user/password", { newPassword: NEW_PASSWORD })).status).toBe(200);
  const again = await own.post("/auth/confirm", { identityToken });
  expect([again.status, again.body.code]).toEqual([401, "EXTERNAL_FAILED"]);
});

test("POST /auth/start-external: prove requires a new sign-in at the provider", async () => {
  const browser = app.httpClient();
  const { body } = await start(browser, { purpose: "prove" });
  const { searchParams } = new URL(body.authorizationUrl);
  expect([searchParams.get("prompt"), searchParams.get("max_age")]).toEqual(["login", "300"]);
  main.misbehave({ claims: (claims) => ({ ...claims, auth_time: Number(claims.iat) - 600 }) });
  const answer = await answerOf(browser, googleAccount(), { purpose: "prove" });
  const { status, body: refused } = await finish(browser, answer);
  main.misbehave({});
  expect([status, refused.code]).toEqual([401, "EXTERNAL_FAILED"]);
});

test("DELETE /user/identities/:id: disconnects an identity, unless it is the last way in", async () => {
  const account = googleAccount();
  const browser = app.httpClient();
  const { body } = await signInBy(account, { browser });
  const own = withToken(browser, body.accessToken);
  const [identity] = (await own.get("/user/identities")).body;
  const last = await own.delete(`/user/identities/${identity.id}`);
  expect([last.status, last.body.code]).toEqual([409, "LAST_SIGN_IN_METHOD"]);
  await own.put("/user/password", { newPassword: NEW_PASSWORD });
  expect((await own.delete(`/user/identities/${identity.id}`)).status).toBe(200);
  await app.mail.emailTo(account.email as string, /disconnected/);
  expect((await own.get("/user/identities")).body).toEqual([]);
  const [removed] = await app.auditOf(body.user.id, "user.identity_removed");
  expect(removed?.details).toMatchObject({ provider: "google" });
  const { body: next } = await signInBy(account);
  expect(next.identityToken).toBeDefined(); // the address has an account
});

test("GET /admin/users/:id/identities, GET /user/export, DELETE /admin/users/:id: show and erase identities", async () => {
  const account = googleAccount();
  const { body } = await signInBy(account);
  const own = withToken(app.httpClient(), body.accessToken);
  const admin = await app.signInAdmin();
  const listed = await admin.get(`/admin/users/${body.user.id}/identities`);
  expect(listed.body).toEqual((await own.get("/user/identities")).body);
  const exported = await own.get("/user/export");
  expect(exported.body.data?.identities ?? exported.body.identities).toMatchObject([
    { provider: "google", subject: account.sub, email: account.email },
  ]);
  expect((await admin.delete(`/admin/users/${body.user.id}`)).status).toBe(200);
  expect(await identitiesOf(body.user.id)).toEqual([]);
  const back = await signInBy(account);
  expect(back.body.user.id).not.toBe(body.user.id);
});

test("POST /auth/finish-external: a suspended account is refused until it is reinstated", async () => {
  const account = googleAccount();
  const { body } = await signInBy(account);
  const admin = await app.signInAdmin();
  const suspend = (suspended: boolean) => admin.put(`/admin/users/${body.user.id}`, { suspended });
  expect((await suspend(true)).status).toBe(200);
  const refused = await signInBy(account);
  expect([refused.status, refused.body.code]).toEqual([403, "ACCOUNT_SUSPENDED"]);
  expect((await suspend(false)).status).toBe(200);
  expect((await signInBy(account)).status).toBe(200);
});

test("POST /admin/users/:id/reset-access: removes the identities of a user", async () => {
  const account = googleAccount();
  const { body } = await signInBy(account);
  const admin = await app.signInAdmin();
  expect((await admin.post(`/admin/users/${body.user.id}/reset-access`)).status).toBe(200);
  expect(await identitiesOf(body.user.id)).toEqual([]);
  expect(await userIdOf(account.email as string)).toBe(body.user.id);
});
