import { describe, expect, test } from "vitest";
import type { SignedIn, TestUser } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { withToken } from "../../support/http/client.ts";

const app = await testApp();

/** The attributes of a cookie that a browser removes. */
const CLEARED = /^refreshToken=; Max-Age=0; Path=\/auth/;

/**
 * A refresh token as another product of the same vendor would make it: a JWT with a foreign key.
 */
const foreignJwt = [{ alg: "EdDSA", kid: "theirs" }, { sub: "7", type: "refresh", exp: 4e9 }, {}]
  .map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"))
  .join(".");

const cookie = (tokens: string[], others = "theme=dark") =>
  [others, ...tokens.map((token) => `refreshToken=${token}`)].join("; ");
const refresh = (tokens: string[]) =>
  app.httpClient().send("POST", "/auth/refresh", undefined, { cookie: cookie(tokens) });

/** Cookies that a site below the same domain may have set beside ours. */
const foreign = [
  { what: "an opaque value", value: "2f8a0c" },
  { what: "an empty value", value: "" },
  { what: "a quoted value", value: '"a b"' },
  { what: "a value with an equals sign", value: "a=b==" },
  { what: "three dots", value: "..." },
  { what: "percent encoding that can't be decoded", value: "%E0%A4%A" },
  { what: "a JWT with a foreign key", value: foreignJwt },
  { what: "a long value", value: "x".repeat(4_000) },
];

/** How clients write a cookie of ours. */
const writings = [
  { how: "quoted", write: (pair: string) => pair.replace("=", '="').concat('"') },
  {
    how: "as Java's CookieManager does",
    write: (pair: string) => `$Version="1"; ${pair.replace("=", '="')}";$Path="/auth"`,
  },
  { how: "with spaces around the equals sign", write: (pair: string) => pair.replace("=", " = ") },
  { how: "after a tab", write: (pair: string) => `theme=dark;\t${pair}` },
  { how: "without spaces", write: (pair: string) => `theme=dark;${pair};lang=de` },
  { how: "between empty pairs", write: (pair: string) => `;; ;=;theme;${pair};;` },
  {
    how: "quoted, after an empty one in quotes",
    write: (pair: string) => `${pair.replace(/=.*/, '=""')}; ${pair.replace("=", '="')}"`,
  },
];

test.each(writings)("POST /auth/refresh: reads a cookie $how", async ({ write }) => {
  const { refreshToken } = await app.signIn();
  const sent = { cookie: write(`refreshToken=${refreshToken}`) };
  const answer = await app.httpClient().send("POST", "/auth/refresh", undefined, sent);
  expect(answer.status).toBe(200);
});

describe("POST /auth/refresh with several `refreshToken` cookies", () => {
  test.each(foreign)("accepts our cookie before and after $what", async ({ value }) => {
    const { refreshToken } = await app.signIn();
    const after = await refresh([value, refreshToken]);
    expect(after.status).toBe(200);
    const before = await refresh([after.body.refreshToken, value]);
    expect(before.status).toBe(200);
    expect(before.headers.get("set-cookie")).toContain(`refreshToken=${before.body.refreshToken}`);
  });

  test("accepts our cookie between two of other sites", async () => {
    const { refreshToken, accessToken } = await app.signIn();
    for (const token of ["one", accessToken]) {
      const answer = await refresh([token, refreshToken, foreignJwt]);
      expect(answer.status).toBe(200);
    }
  });

  test("accepts our cookie twice, beside another", async () => {
    const { refreshToken } = await app.signIn();
    expect((await refresh([refreshToken, "opaque", refreshToken])).status).toBe(200);
  });

  test("returns 401 and keeps the cookie if two of them are valid", async () => {
    const [mine, theirs] = [await app.signIn(), await app.signIn()];
    for (const tokens of [
      [mine.refreshToken, theirs.refreshToken],
      [theirs.refreshToken, mine.refreshToken],
      [theirs.refreshToken, "opaque", mine.refreshToken],
    ]) {
      const answer = await refresh(tokens);
      expect(answer).toMatchObject({ status: 401, body: { code: "REFRESH_TOKEN_INVALID" } });
      expect(answer.headers.get("set-cookie")).toBeNull();
    }
    expect((await refresh([mine.refreshToken])).status).toBe(200);
    expect((await refresh([theirs.refreshToken])).status).toBe(200);
  });

  test("returns 401 and keeps the cookie if none of them is valid", async () => {
    const answer = await refresh(["opaque", foreignJwt]);
    expect(answer).toMatchObject({ status: 401, body: { code: "REFRESH_TOKEN_INVALID" } });
    expect(answer.headers.get("set-cookie")).toBeNull();
  });

  test("clears the cookie if it is valid but its session has ended", async () => {
    const { refreshToken, post } = await app.signIn();
    await post("/auth/logout");
    for (const tokens of [
      ["opaque", refreshToken],
      [refreshToken, "opaque"],
    ]) {
      const answer = await refresh(tokens);
      expect(answer).toMatchObject({ status: 401, body: { code: "REFRESH_TOKEN_INVALID" } });
      expect(answer.headers.get("set-cookie")).toMatch(CLEARED);
    }
  });
});

describe("POST /auth/logout with several `refreshToken` cookies", () => {
  const cases = [
    { what: "before ours", order: (ours: string, twin: string) => [twin, ours] },
    { what: "after ours", order: (ours: string, twin: string) => [ours, twin] },
  ];
  test.each(cases)("ends the session of our cookie with a foreign one $what", async ({ order }) => {
    const { user, headers } = await app.signIn();
    const other = await app.signIn(user); // another session of the same user, whose cookie is sent
    const sent = { ...headers, cookie: cookie(order(other.refreshToken, "opaque")) };
    const answer = await app.httpClient().send("POST", "/auth/logout", undefined, sent);
    expect(answer.status).toBe(200);
    expect(answer.headers.get("set-cookie")).toMatch(CLEARED);
    expect(await other.profileStatus()).toBe(401);
  });

  test("ends only the session of the access token if two cookies are valid", async () => {
    const { user, headers, profileStatus } = await app.signIn();
    const [second, third] = [await app.signIn(user), await app.signIn(user)];
    const sent = { ...headers, cookie: cookie([second.refreshToken, third.refreshToken]) };
    expect((await app.httpClient().send("POST", "/auth/logout", undefined, sent)).status).toBe(200);
    expect(await profileStatus()).toBe(401);
    expect([await second.profileStatus(), await third.profileStatus()]).toEqual([200, 200]);
  });
});

describe("POST /auth/login with several `device` cookies", () => {
  const signInWith = async (user: TestUser, tokens: string[]) => {
    const sent = { cookie: tokens.map((token) => `device=${token}`).join("; ") };
    const answer = await app.httpClient().send("POST", "/auth/login", user.credentials, sent);
    expect(answer.status).toBe(200);
    return withToken(app.httpClient(), answer.body.accessToken);
  };
  const devicesOf = async ({ get }: Pick<SignedIn, "get">) =>
    (await get("/user/devices")).body.map(({ id }: { id: string }) => id);
  const deviceOf = ({ browser }: SignedIn) => browser.cookies.get("device") ?? "";

  test.each(foreign)(
    "recognizes the browser by our cookie before and after $what",
    async ({ value }) => {
      const account = await app.signIn();
      const ours = deviceOf(account);
      const known = await devicesOf(account);
      expect(known).toHaveLength(1);
      for (const tokens of [
        [value, ours],
        [ours, value],
      ])
        expect(await devicesOf(await signInWith(account.user, tokens))).toEqual(known);
    },
  );

  test.each(writings)("recognizes the browser by a cookie $how", async ({ write }) => {
    const account = await app.signIn();
    const sent = { cookie: write(`device=${deviceOf(account)}`) };
    const { credentials } = account.user;
    const answer = await app.httpClient().send("POST", "/auth/login", credentials, sent);
    const again = withToken(app.httpClient(), answer.body.accessToken);
    expect(await devicesOf(again)).toEqual(await devicesOf(account));
    expect(await devicesOf(again)).toHaveLength(1);
  });

  test("recognizes no browser if two cookies are valid", async () => {
    const account = await app.signIn();
    const tokens = [deviceOf(account), deviceOf(await app.signIn())];
    const devices = await devicesOf(await signInWith(account.user, tokens));
    expect(devices).toHaveLength(2);
  });
});
