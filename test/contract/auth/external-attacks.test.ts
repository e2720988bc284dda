import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import type { JWTPayload } from "jose";
import { describe, expect, onTestFinished, test } from "vitest";
import type {
  Endpoint,
  ProviderFaults,
  SimulatedAccount,
} from "../../../scripts/simulators/sign-in-provider.ts";
import { NEW_PASSWORD } from "../../support/accounts.ts";
import { createAuthenticator } from "../../support/authenticator.ts";
import {
  type Answer,
  githubAccount,
  googleAccount,
  RETURN_URLS,
  startExternalApp,
} from "../../support/external.ts";
import {
  type HttpClient,
  type HttpResponse,
  sendHttp,
  withToken,
} from "../../support/http/client.ts";
import { passkeyActions } from "../../support/passkeys.ts";
import { tally, times } from "../../support/tally.ts";

const { app, main, other, own, start, answerOf, finish, signInBy, prove, identitiesOf, userIdOf } =
  await startExternalApp();

const FAILED = [401, "EXTERNAL_FAILED"];

/** Lets the main provider misbehave during a test. */
function misbehave(faults: ProviderFaults): void {
  main.misbehave(faults);
  onTestFinished(() => main.misbehave({}));
}

const sessions = async () =>
  (await app.sql<{ count: number }>("select count(*)::int as count from sessions"))[0]?.count;

/** Finishes, and expects that nothing follows from it. */
async function expectRefused(browser: HttpClient, answer: Answer): Promise<void> {
  const [cookies, before] = [new Map(browser.cookies), await sessions()];
  const { status, body } = await finish(browser, answer);
  expect([status, body.code]).toEqual(FAILED);
  expect(new Map(browser.cookies)).toEqual(cookies);
  expect(await sessions()).toBe(before);
}

/** A browser that has its own device cookie. */
async function otherBrowser(): Promise<HttpClient> {
  const browser = app.httpClient();
  await start(browser);
  return browser;
}

/** Changes one bit of a character of base64url. */
function flip(text: string, at: number): string {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const flipped = alphabet[alphabet.indexOf(text[at] as string) ^ 1] as string;
  return text.slice(0, at) + flipped + text.slice(at + 1);
}

describe("POST /auth/finish-external: login CSRF", () => {
  test("rejects the attacker's response in the victim's browser, and the victim's in the attacker's", async () => {
    const [attacker, victim] = [app.httpClient(), await otherBrowser()];
    await expectRefused(victim, await answerOf(attacker, googleAccount()));
    await expectRefused(app.httpClient(), await answerOf(attacker, googleAccount())); // without a cookie
    await expectRefused(attacker, await answerOf(victim, googleAccount()));
  });

  test("rejects requests from other sites, and two device cookies", async () => {
    const browser = app.httpClient();
    const answer = await answerOf(browser, googleAccount());
    const foreign = await browser.send("POST", "/auth/finish-external", answer, {
      origin: "https://evil.example",
    });
    expect([foreign.status, foreign.body.code]).toEqual([403, "CROSS_SITE"]);
    const device = browser.cookies.get("device");
    const planted = (await otherBrowser()).cookies.get("device");
    const two = await browser.send("POST", "/auth/finish-external", answer, {
      cookie: `device=${device}; device=${planted}`,
    });
    expect([two.status, two.body.code]).toEqual(FAILED);
  });
});

describe("POST /auth/finish-external: mix-up", () => {
  test("rejects the response of a provider in the name of another", async () => {
    const browser = app.httpClient();
    const answer = await answerOf(browser, googleAccount());
    const seen = other.requests.length;
    await expectRefused(browser, { ...answer, provider: "microsoft" });
    expect(other.requests.length).toBe(seen); // a code of one provider reaches no other
    const { iss: _, ...without } = await answerOf(browser, googleAccount());
    await expectRefused(browser, without);
    const wrong = await answerOf(browser, googleAccount());
    await expectRefused(browser, { ...wrong, iss: other.issuer });
  });

  test("accepts a response without iss if the provider does not announce it, but not a wrong one", async () => {
    const account = googleAccount();
    const browser = app.httpClient();
    const answer = await answerOf(browser, account, { provider: "microsoft" });
    await expectRefused(browser, { ...answer, iss: main.issuer });
    expect((await signInBy(account, { provider: "microsoft" })).status).toBe(200);
  });
});

describe("POST /auth/finish-external: state", () => {
  test("rejects a state with a changed character, or with another page number", async () => {
    const browser = app.httpClient();
    const answer = await answerOf(browser, googleAccount(), { returnTo: RETURN_URLS[0] as string });
    const { state } = answer;
    expect(state.startsWith("1.")).toBe(true);
    for (const at of [2, 20, 30, 100, state.length - 1])
      await expectRefused(browser, { ...answer, state: flip(state, at) });
    for (const changed of [
      `0.${state.slice(2)}`,
      `01.${state.slice(2)}`,
      `1.A.${state.slice(2)}`,
      `1..${state.slice(2)}`,
      state.slice(2),
      `${state}A`,
      "",
    ])
      await expectRefused(browser, { ...answer, state: changed });
    expect((await finish(browser, answer)).status).toBe(200);
    await expectRefused(browser, answer);
  });

  test("rejects a state after 10 minutes, a response without a code, and an error", async () => {
    const browser = app.httpClient();
    const answer = await answerOf(browser, googleAccount());
    app.clock.advance("10m");
    await expectRefused(browser, answer);
    const { code: _, ...without } = await answerOf(browser, googleAccount());
    await expectRefused(browser, without);
    await expectRefused(browser, { ...without, error: "access_denied" });
    const [failure] = await app.sql<{ details: object }>(
      "select details from audit_events where event = 'auth.external_failed' order by id desc limit 1",
    );
    expect(failure?.details).toEqual({ provider: "google" });
  });
});

describe("POST /auth/finish-external: code", () => {
  test("50 concurrent callers send a code once, and open one session", async () => {
    const account = googleAccount();
    const { body } = await signInBy(account);
    const browser = app.httpClient();
    const answer = await answerOf(browser, account);
    const tokensBefore = main.requests.filter(({ endpoint }) => endpoint === "token").length;
    const answers = await Promise.all(
      Array.from({ length: 50 }, () =>
        app.httpClient().send("POST", "/auth/finish-external", answer, {
          cookie: `device=${browser.cookies.get("device")}`,
        }),
      ),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 401)).toHaveLength(49);
    const sent = main.requests.filter(({ endpoint }) => endpoint === "token").length;
    expect(sent - tokensBefore).toBe(1);
    const [row] = await app.sql<{ count: number }>(
      "select count(*)::int as count from sessions where user_id = ?",
      [body.user.id],
    );
    expect(row?.count).toBe(2);
  });

  test("rejects a code that was issued for another exchange (PKCE), and its ID token (nonce)", async () => {
    const [attacker, victim] = [app.httpClient(), app.httpClient()];
    const stolen = await answerOf(attacker, googleAccount());
    const answer = await answerOf(victim, googleAccount());
    await expectRefused(victim, { ...answer, code: stolen.code as string });
    misbehave({ ignoresPkce: true });
    const stolenAgain = await answerOf(attacker, googleAccount());
    const own = await answerOf(victim, googleAccount());
    await expectRefused(victim, { ...own, code: stolenAgain.code as string });
  });
});

describe("POST /auth/finish-external: ID tokens", () => {
  const change = (changes: Record<string, unknown>): ProviderFaults => ({
    claims: (claims) => ({ ...claims, ...changes }) as JWTPayload,
  });
  const later = (claim: string, seconds: number): ProviderFaults => ({
    claims: (claims) => ({ ...claims, [claim]: Number(claims[claim]) + seconds }),
  });
  const cases: [string, ProviderFaults][] = [
    ["alg none", { signature: "none" }],
    ["an unknown key", { signature: "strange" }],
    ["HS256 with the client secret", { signature: "hs256" }],
    ["another audience", change({ aud: "somebody-else" })],
    [
      "several audiences without azp",
      change({ aud: ["gatehouse-client", "other"], azp: undefined }),
    ],
    ["another authorized party", change({ aud: ["gatehouse-client", "other"], azp: "other" })],
    ["another authorized party of one audience", change({ azp: "other" })],
    [
      "an audience among others that is not ours",
      change({ aud: ["other", "third"], azp: "other" }),
    ],
    ["another issuer", change({ iss: "https://accounts.google.com" })],
    ["another nonce", change({ nonce: "x".repeat(43) })],
    ["no nonce", change({ nonce: undefined })],
    ["an expiry in the past", later("exp", -400)],
    ["no expiry", change({ exp: undefined })],
    ["an issue time in the future", later("iat", 600)],
    ["an issue time that is a text", change({ iat: "1" })],
    ["a sign-in time that is a text", change({ auth_time: "1" })],
    ["no subject", change({ sub: undefined })],
    ["an empty subject", change({ sub: "" })],
    ["a subject of 10 KiB", change({ sub: "s".repeat(10_240) })],
    ["a subject that is a number", change({ sub: 7 })],
    ["a subject with NUL", change({ sub: "a\0b" })],
  ];
  test.each(cases)("rejects %s", async (_what, faults) => {
    misbehave(faults);
    const browser = app.httpClient();
    await expectRefused(browser, await answerOf(browser, googleAccount()));
  });

  const answers: [string, (response: ServerResponse) => void][] = [
    ["no ID token", (r) => r.end('{"access_token":"a","token_type":"Bearer"}')],
    ["HTML", (r) => r.setHeader("content-type", "text/html").end("<h1>Hello</h1>")],
    ["status 500", (r) => r.writeHead(500).end("secret details")],
    ["a redirect to this machine", (r) => r.writeHead(302, { location: own.issuer }).end()],
  ];
  test.each(answers)("rejects a token response with %s", async (_what, answer) => {
    misbehave({ answer: { token: answer } });
    const browser = app.httpClient();
    const seen = own.requests.length;
    await expectRefused(browser, await answerOf(browser, googleAccount()));
    expect(own.requests.length).toBe(seen);
  });
});

describe("POST /auth/finish-external: names and addresses at a provider", () => {
  test.each(["a\0b@gmail.com", "\0", "\ud800@gmail.com", "a@b", "x".repeat(400), "", null])(
    "signs in a known identity whose address has become %j",
    async (email) => {
      const account = googleAccount();
      const first = await signInBy(account);
      expect(first.status).toBe(200);
      const changed = { ...account, email: email as string, name: email as string };
      const again = await signInBy(changed);
      expect([again.status, again.body.user?.id]).toEqual([200, first.body.user.id]);
      const { status } = await app.httpClient().get("/user/identities", again.body.accessToken);
      expect(status).toBe(200);
    },
  );
});

describe("POST /auth/finish-external: takeover of a verified account", () => {
  const cases: [string, string, (email: string) => SimulatedAccount][] = [
    [
      "Google with a proven address",
      "google",
      (email) => googleAccount({ email, hd: "example.com" }),
    ],
    ["Google on a foreign domain without hd", "google", (email) => googleAccount({ email })],
    [
      "the address in upper case",
      "google",
      (email) => googleAccount({ email: email.toUpperCase(), hd: "x" }),
    ],
    [
      "the address in full-width letters",
      "google",
      (email) => googleAccount({ email: email.replaceAll("e", "ｅ"), hd: "x" }),
    ],
    ["a tenant of Microsoft", "microsoft", (email) => googleAccount({ email })],
    ["an unverified primary address of GitHub", "github", (email) => githubAccount(email, false)],
    ["a verified primary address of GitHub", "github", (email) => githubAccount(email, true)],
    ["a trusted provider", "acme", (email) => googleAccount({ email })],
  ];
  test.each(cases)("%s does not open the account", async (_what, provider, accountWith) => {
    const user = await app.addVerifiedUser();
    const browser = app.httpClient();
    const { status, body } = await signInBy(accountWith(user.email), { provider, browser });
    expect(status).toBe(200);
    expect(body.accessToken).toBeUndefined();
    expect(body.identityToken).toEqual(expect.any(String));
    expect(browser.cookies.has("refreshToken")).toBe(false);
    expect(await identitiesOf(user.id)).toEqual([]);
  });

  test("an address in another alphabet opens another account, or none", async () => {
    const user = await app.addVerifiedUser();
    const lookalike = user.email.replace("example", "ехample"); // two letters are Cyrillic
    const { body } = await signInBy(googleAccount({ email: lookalike, hd: "x" }));
    expect(body.user?.id).not.toBe(user.id);
    const local = await signInBy(googleAccount({ email: `ехample.${user.email}`, hd: "x" }));
    expect([local.status, local.body.code]).toEqual([400, "EXTERNAL_EMAIL_MISSING"]);
  });

  test.each([
    "me@evil.example,",
    "me@evil.example;",
    "<me@evil.example>",
    '"me@evil.example" ',
    "a b",
  ])("an address that mail programs read as several is none: %j before another", async (before) => {
    const email = `${before}${randomUUID()}@example.com`;
    const { status, body } = await signInBy(googleAccount({ email, hd: "x" }));
    expect([status, body.code]).toEqual([400, "EXTERNAL_EMAIL_MISSING"]);
  });

  // smtp-server, which receives the mail of other deployments, refuses two dots even in quotes
  const twoDots = process.env.TEST_MODE === "embedded" ? ["a..ID"] : [];
  test.each(["ID.", ".ID", ...twoDots, "!#$%&'*+/=?^_`{|}~-ID"])(
    "an address with %s before the @ makes an account that its mailbox opens without the provider",
    async (localPart) => {
      const email = `${localPart.replace("ID", randomUUID())}@gmail.com`;
      const { status, body } = await signInBy(googleAccount({ email }));
      expect([status, body.user?.email]).toEqual([200, email]);
      expect((await app.resetPassword(await app.resetTokenFor(email))).status).toBe(200);
      expect((await app.login(email, NEW_PASSWORD)).body.user.id).toBe(body.user.id);
    },
  );

  test("an unproven address does not open an account that was never verified", async () => {
    const user = await app.addUser();
    for (const provider of ["google", "microsoft"]) {
      const { body } = await signInBy(googleAccount({ email: user.email }), { provider });
      expect(body.identityToken).toEqual(expect.any(String));
    }
    expect((await app.login(user.email)).status).toBe(200);
  });
});

describe("POST /auth/finish-external: an account that somebody else has registered", () => {
  test("is taken back: its password, sessions, factor, identities and mailed links are removed", async () => {
    const account = await app.signIn();
    const { user, browser, get, post, refreshToken, accessToken } = account;
    const authenticator = createAuthenticator();
    const passkeys = passkeyActions(app);
    expect((await passkeys.register(account, authenticator)).status).toBe(201);
    expect((await post("/auth/setup-totp")).status).toBe(200);
    const attacker = googleAccount();
    const identityToken = await prove(browser, attacker);
    expect((await post("/auth/connect-identity", { identityToken })).status).toBe(201);
    const { token: resetToken } = { token: await app.resetTokenFor(user.email) };
    const owner = app.httpClient();
    const theirs = googleAccount({ email: user.email, hd: "example.com" });
    const { status, body } = await signInBy(theirs, { browser: owner });
    expect([status, body.user?.id]).toEqual([200, user.id]);
    expect((await get("/user/profile")).status).toBe(401);
    expect((await app.refresh(refreshToken)).status).toBe(401);
    expect(await app.profileStatus(accessToken)).toBe(401);
    expect((await app.login(user.email)).status).toBe(401);
    expect((await app.resetPassword(resetToken)).status).toBe(400);
    expect(await identitiesOf(user.id)).toMatchObject([{ subject: theirs.sub }]);
    expect((await passkeys.signIn(authenticator)).status).toBe(401);
    const stranger = await signInBy(attacker);
    expect(stranger.body.user?.id).not.toBe(user.id);
    expect(await app.auditOf(user.id, "user.taken_back")).toHaveLength(1);
    await app.mail.emailTo(user.email, /is now yours/);
    const { get: getOwn } = withToken(owner, body.accessToken);
    expect((await getOwn("/user/sign-in-methods")).body).toMatchObject({
      hasPassword: false,
      passkeys: 0,
      identities: 1,
    });
    expect((await getOwn("/user/profile")).body.mfaEnabled).toBe(false);
  });

  test("keeps its password on a device that has signed in to it", async () => {
    const { user, browser, accessToken } = await app.signIn();
    const account = googleAccount({ email: user.email, hd: "example.com" });
    const { body } = await signInBy(account, { browser });
    expect(body.user.id).toBe(user.id);
    expect(await app.profileStatus(accessToken)).toBe(200);
    expect((await app.login(user.email)).status).toBe(200);
    expect(await app.auditOf(user.id, "user.taken_back")).toEqual([]);
  });
});

describe("GET and POST /auth/external/:provider/callback", () => {
  const call = (query: string) =>
    sendHttp(app.url, "GET", `/auth/external/google/callback?${query}`);
  const locationOf = async (query: string) => {
    const { status, headers } = await call(query);
    expect(status).toBe(303);
    expect(headers.get("set-cookie")).toBeNull();
    return headers.get("location");
  };
  const home = "http://gatehouse.test/external#";

  test("forwards the response in the fragment, to the page with its number", async () => {
    expect(await locationOf("code=a&state=0.x&iss=https%3A%2F%2Fi&scope=s")).toBe(
      `${home}provider=google&code=a&state=0.x&iss=https%3A%2F%2Fi`,
    );
    expect(await locationOf("error=access_denied&state=1.x")).toBe(
      `${RETURN_URLS[0]}#provider=google&state=1.x&error=access_denied`,
    );
    expect(await locationOf("code=a&state=2.x")).toBe(
      `${RETURN_URLS[1]}#provider=google&code=a&state=2.x`,
    );
    const form = new URLSearchParams({ code: "a", state: "0.x", user: "{}" }).toString();
    const posted = await sendHttp(app.url, "POST", "/auth/external/apple/callback", form, {
      "content-type": "application/x-www-form-urlencoded",
      origin: "https://appleid.apple.com",
    });
    expect([posted.status, posted.headers.get("location")]).toEqual([
      303,
      `${home}provider=apple&code=a&state=0.x&user=%7B%7D`,
    ]);
  });

  const targets = [
    "state=3.x",
    "state=999.x",
    "state=-1.x",
    "state=//evil.example",
    "state=https://evil.example",
    "state=0.x%0d%0aLocation:%20https://evil.example",
    "state=0.%00",
    "returnTo=https://evil.example&state=0.x",
    "redirect_uri=javascript:alert(1)",
    "code=%5c%5cevil.example",
    "state=@evil.example",
    Array.from({ length: 100 }, (_, i) => `p${i}=https://evil.example`).join("&"),
    "",
  ];
  test.each(targets)("redirects nowhere else with %s", async (query) => {
    const location = (await locationOf(query)) ?? "";
    expect(location.startsWith(home)).toBe(true);
    expect(location).not.toMatch(/[\r\n\0]/);
    expect(new URL(location).host).toBe("gatehouse.test");
  });

  test.each(["state=0.a&state=0.b", "code=a&code=b", `code=${"c".repeat(4_097)}`])(
    "rejects a repeated or overlong parameter",
    async (query) => {
      expect((await call(query)).status).toBe(400);
    },
  );

  test("rejects a form of 1 MiB, and unknown providers", async () => {
    const big = await sendHttp(
      app.url,
      "POST",
      "/auth/external/apple/callback",
      "a".repeat(2 ** 20),
      {
        "content-type": "application/x-www-form-urlencoded",
      },
    );
    expect(big.status).toBe(413);
    const path = "/auth/external/%2e%2e%2fx/callback";
    expect((await sendHttp(app.url, "GET", path)).status).toBe(404);
  });

  test.each([
    "https://evil.example/external",
    "http://gatehouse.test.evil.example/external",
    "http://gatehouse.test@evil.example/external",
    "//evil.example",
    "\\\\evil.example",
    "javascript:alert(1)",
    `${RETURN_URLS[0]}/`,
    "",
  ])("POST /auth/start-external: rejects returnTo %s", async (returnTo) => {
    const { status, body } = await start(app.httpClient(), { returnTo });
    expect([status, body.violations?.[0]?.field]).toEqual([400, "returnTo"]);
  });
});

describe("Unavailable sign-in providers", () => {
  const cases: [string, (response: ServerResponse) => void][] = [
    ["silent", () => {}],
    ["cut off", (response) => response.destroy()],
    [
      "dripping",
      (response) => {
        response.writeHead(200, { "content-type": "application/json" });
        const drip = setInterval(() => response.write(" "), 250);
        response.once("close", () => clearInterval(drip));
      },
    ],
    [
      "endless",
      (response) => {
        response.writeHead(200, { "content-type": "application/json" });
        const chunk = "[".repeat(65_536);
        const write = () => {
          if (response.destroyed) return;
          response.write(chunk);
          setImmediate(write);
        };
        write();
      },
    ],
  ];
  test.each(cases)(
    "POST /auth/finish-external: a provider that is %s fails within 5 s, and other sign-ins continue",
    async (_what, answer) => {
      misbehave({ answer: { token: answer } });
      const browser = app.httpClient();
      const given = await answerOf(browser, googleAccount());
      const startedAt = performance.now();
      const finishing = finish(browser, given);
      await app.signIn();
      const { status, body } = await finishing;
      expect([status, body.code]).toEqual([503, "UNAVAILABLE"]);
      expect(performance.now() - startedAt).toBeLessThan(6_500);
    },
  );

  test.each(cases)(
    "POST /auth/start-external: a provider that is %s fails within 5 s",
    async (_what, answer) => {
      app.clock.advance("1h"); // its discovery document counts for so long
      misbehave({ answer: { discovery: answer } });
      onTestFinished(() => app.clock.advance("5s")); // it is not asked again before
      const startedAt = performance.now();
      const { status, body } = await start(app.httpClient());
      expect([status, body.code]).toEqual([503, "UNAVAILABLE"]);
      expect(performance.now() - startedAt).toBeLessThan(6_500);
      expect((await start(app.httpClient(), { provider: "microsoft" })).status).toBe(200);
    },
  );

  const answerJson = (value: unknown) => (response: ServerResponse) =>
    response.setHeader("content-type", "application/json").end(JSON.stringify(value));
  const document = (changes: object) =>
    answerJson({
      issuer: main.issuer,
      authorization_endpoint: `${main.issuer}/authorize`,
      token_endpoint: `${main.issuer}/token`,
      jwks_uri: `${main.issuer}/keys`,
      ...changes,
    });
  /** Requests that reached an endpoint of the main provider. */
  const asked = (wanted: Endpoint) =>
    main.requests.filter(({ endpoint }) => endpoint === wanted).length;

  const documents: [string, (response: ServerResponse) => void][] = [
    ["is HTML", (r) => r.setHeader("content-type", "text/html").end("<h1>Hello</h1>")],
    ["has status 500", (r) => r.writeHead(500).end("{}")],
    ["redirects to this machine", (r) => r.writeHead(302, { location: own.issuer }).end()],
    ["is cut off", (r) => r.setHeader("content-type", "application/json").end('{"issuer":')],
    ["is a list", answerJson([])],
    ["names another issuer", document({ issuer: own.issuer })],
    ["names no issuer", document({ issuer: undefined })],
    ["has no keys", document({ jwks_uri: undefined })],
    ["has no token endpoint", document({ token_endpoint: undefined })],
    ["leads to a script", document({ authorization_endpoint: "javascript:alert(1)" })],
    ["leads to plain http", document({ authorization_endpoint: "http://evil.example/" })],
    ["sends codes over plain http", document({ token_endpoint: "http://evil.example/token" })],
    ["has keys in a file", document({ jwks_uri: "file:///etc/passwd" })],
    ["lists methods as a number", document({ token_endpoint_auth_methods_supported: 1 })],
    ["has 300 KiB", document({ padding: "x".repeat(300 * 1024) })],
  ];
  test.each(documents)(
    "POST /auth/start-external: a discovery document that %s is 503, requested once in 5 s and not cached",
    async (_what, answer) => {
      app.clock.advance("1h");
      misbehave({ answer: { discovery: answer } });
      onTestFinished(() => app.clock.advance("5s"));
      const before = [asked("discovery"), own.requests.length];
      for (let i = 0; i < 3; i++) {
        const { status, body } = await start(app.httpClient());
        expect([status, body.code]).toEqual([503, "UNAVAILABLE"]);
      }
      main.misbehave({});
      expect((await start(app.httpClient())).status).toBe(503);
      expect([asked("discovery"), own.requests.length]).toEqual([(before[0] ?? 0) + 1, before[1]]);
      app.clock.advance("5s");
      expect((await signInBy(googleAccount())).status).toBe(200);
    },
  );

  test("POST /auth/start-external: concurrent callers share one request for the discovery document", async () => {
    app.clock.advance("1h");
    const before = asked("discovery");
    const answers = await Promise.all(Array.from({ length: 20 }, () => start(app.httpClient())));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect(asked("discovery")).toBe(before + 1);
  });

  const keySets: [string, (response: ServerResponse) => void][] = [
    ["are HTML", (r) => r.setHeader("content-type", "text/html").end("<h1>Hello</h1>")],
    ["have status 500", (r) => r.writeHead(500).end('{"keys":[{}]}')],
    ["redirect to this machine", (r) => r.writeHead(302, { location: own.issuer }).end()],
    ["are none", answerJson({ keys: [] })],
    ["are a text", answerJson({ keys: "all" })],
    ["are numbers", answerJson({ keys: [1] })],
    ["have 300 KiB", answerJson({ keys: [{ padding: "x".repeat(300 * 1024) }] })],
  ];
  test.each(keySets)(
    "POST /auth/finish-external: keys of a provider that %s are 503, requested once in 5 s and not cached",
    async (_what, answer) => {
      app.clock.advance("1h"); // the keys are forgotten with the discovery document
      misbehave({ answer: { keys: answer } });
      onTestFinished(() => app.clock.advance("5s"));
      const before = [asked("keys"), own.requests.length];
      for (let i = 0; i < 3; i++) {
        const { status, body } = await signInBy(googleAccount());
        expect([status, body.code]).toEqual([503, "UNAVAILABLE"]);
      }
      expect([asked("keys"), own.requests.length]).toEqual([(before[0] ?? 0) + 1, before[1]]);
      main.misbehave({});
      app.clock.advance("5s");
      expect((await signInBy(googleAccount())).status).toBe(200);
    },
  );

  test("POST /auth/finish-external: ID tokens of an unknown key are 401 and request the keys once, and others stay valid", async () => {
    app.clock.advance("1h");
    misbehave({ kid: "two" });
    const before = asked("keys");
    for (let i = 0; i < 5; i++) {
      const browser = app.httpClient();
      await expectRefused(browser, await answerOf(browser, googleAccount()));
    }
    main.misbehave({});
    expect((await signInBy(googleAccount())).status).toBe(200);
    expect(asked("keys")).toBe(before + 1);
  });

  test("the log contains the error code of a wrong client secret", async () => {
    misbehave({
      answer: {
        token: (response) =>
          response
            .writeHead(401, { "content-type": "application/json" })
            .end('{"error":"invalid_client","error_description":"gatehouse-secret"}'),
      },
    });
    const browser = app.httpClient();
    await expectRefused(browser, await answerOf(browser, googleAccount()));
    expect(app.logs.join("")).toContain('"problem":"invalid_client"');
  });

  test("the log contains no code, token or secret", async () => {
    const account = googleAccount();
    const browser = app.httpClient();
    const answer = await answerOf(browser, account);
    await call(answer);
    const { body } = await finish(browser, answer);
    const log = JSON.stringify(app.logs);
    const secrets = [answer.code, answer.state, body.accessToken, "gatehouse-secret"];
    for (const secret of secrets) expect(log).not.toContain(secret);
    function call({ provider, ...query }: Answer) {
      return sendHttp(
        app.url,
        "GET",
        `/auth/external/${provider}/callback?${new URLSearchParams(query)}`,
      );
    }
  });
});

describe("Identities: concurrent requests", () => {
  test("POST /auth/connect-identity: only one of two accounts gets an identity", async () => {
    const account = googleAccount();
    const owners = [await app.signIn(), await app.signIn()];
    const tokens = await Promise.all(owners.map(({ browser }) => prove(browser, account)));
    const answers = await Promise.all(
      owners.map(({ post }, i) => post("/auth/connect-identity", { identityToken: tokens[i] })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409]);
    expect(answers.find(({ status }) => status === 409)?.body.code).toBe("IDENTITY_TAKEN");
  });

  test("DELETE /user/identities/:id: if two tabs concurrently remove the last two ways in, one stays", async () => {
    const account = googleAccount();
    const browser = app.httpClient();
    const { body } = await signInBy(account, { browser });
    const tab = withToken(browser, body.accessToken);
    const identityToken = await prove(browser, googleAccount(), "acme");
    expect((await tab.post("/auth/connect-identity", { identityToken })).status).toBe(201);
    const identities: { id: string }[] = (await tab.get("/user/identities")).body;
    const answers = await Promise.all(
      identities.map(({ id }) => tab.delete(`/user/identities/${id}`)),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
    expect(await identitiesOf(body.user.id)).toHaveLength(1);
  });

  test("POST /auth/finish-external: two concurrent first sign-ins create one account", async () => {
    const account = googleAccount({ email: `${randomUUID()}@gmail.com` });
    const answers = await Promise.all(Array.from({ length: 10 }, () => signInBy(account)));
    expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(200));
    const ids = new Set(answers.map(({ body }) => body.user.id));
    expect([...ids]).toEqual([await userIdOf(account.email as string)]);
  });

  test.each(["nobody", "a stranger"])(
    "POST /auth/finish-external: of concurrent sign-ins by two providers with an address registered by %s, one opens the account and the other gets an identity token",
    async (who) => {
      const stranger = who === "nobody" ? undefined : await app.signIn();
      const email = stranger?.user.email ?? `${randomUUID()}@example.com`;
      const google = googleAccount({ email, hd: "example.com" });
      const github = githubAccount(email, true);
      const answers = await Promise.all(
        times(12, (i) => (i % 2 ? signInBy(google) : signInBy(github, { provider: "github" }))),
      );
      const kindOf = ({ body }: HttpResponse) => (body.identityToken ? "token" : body.user?.id);
      const userId = await userIdOf(email);
      expect(tally(answers, kindOf)).toEqual({ token: 6, [userId as string]: 6 });
      expect(await identitiesOf(userId as string)).toHaveLength(1);
      if (stranger) expect(await stranger.profileStatus()).toBe(401);
    },
  );

  test("POST /auth/finish-external: concurrent first sign-ins create one account though the address at the provider changes", async () => {
    const account = googleAccount();
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, i) =>
        signInBy({ ...account, email: `${i}.${account.email}` }),
      ),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(200));
    expect(new Set(answers.map(({ body }) => body.user.id)).size).toBe(1);
  });
});
