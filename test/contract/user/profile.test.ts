import { expect, test } from "vitest";
import { testApp } from "../../support/app.ts";
import { tally, times } from "../../support/until.ts";

const app = await testApp();

test("GET /user/profile: returns the documented fields, and no other", async () => {
  const { user, browser, accessToken } = await app.signIn();
  const { status, body, headers } = await browser.get("/user/profile", accessToken);
  expect(status).toBe(200);
  expect(body).toEqual({
    id: user.id,
    email: user.email,
    name: user.name,
    role: "user",
    emailVerified: false,
    mfaEnabled: false,
    createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
    updatedAt: expect.stringMatching(/Z$/),
    passwordExpiresAt: expect.stringMatching(/Z$/),
  });
  expect(headers.get("cache-control")).toBe("no-store");
  expect(headers.get("ratelimit-limit")).toBe("100");
});

test("GET /user/profile: refuses an ended access token", async () => {
  const { browser, accessToken } = await app.signIn();
  expect((await browser.get("/user/profile", accessToken)).status).toBe(200); // the token is cached from here on
  app.clock.advance("15m");
  const ended = await browser.get("/user/profile", accessToken);
  expect(ended).toMatchObject({ status: 401, body: { code: "UNAUTHENTICATED" } });
});

test("GET /user/profile: allows 100 requests a minute per user, from any address", async () => {
  const { user, accessToken } = await app.signIn();
  const { accessToken: other } = await app.signIn(user);
  const ask = (i: number) => app.httpClient().get("/user/profile", i % 2 ? other : accessToken);
  const answers = await Promise.all(times(101, ask));
  expect(tally(answers, (a) => a.status)).toEqual({ 200: 100, 429: 1 });
  const left = answers.map((a) => Number(a.headers.get("ratelimit-remaining")));
  expect(left.sort((a, b) => a - b)).toEqual([0, ...times(100, (i) => i)]);
  app.clock.advance("1m");
  expect((await app.httpClient().get("/user/profile", accessToken)).status).toBe(200);
});

test("PUT /user/profile: changes name and bio, and keeps absent fields", async () => {
  const { user, browser, accessToken } = await app.signIn();
  const put = async (body: unknown) => (await browser.put("/user/profile", body, accessToken)).body;
  expect(await put({ name: "  Bea  " })).toEqual({
    message: expect.any(String),
    user: { id: user.id, name: "Bea", bio: "" },
  });
  expect((await put({ bio: "Likes 🦜 & <b>" })).user).toEqual({ id: user.id, name: "Bea", bio: "Likes 🦜 & <b>" });
  expect((await put({})).user).toEqual({ id: user.id, name: "Bea", bio: "Likes 🦜 & <b>" });
  expect((await browser.get("/user/profile", accessToken)).body).toMatchObject({ name: "Bea", bio: "Likes 🦜 & <b>" });
  expect((await put({ bio: "" })).user.bio).toBe("");
});

test.each([
  [{ name: "" }, "name"],
  [{ name: "   " }, "name"],
  [{ name: "x".repeat(101) }, "name"],
  [{ name: 7 }, "name"],
  [{ name: "a\u0000b" }, "name"],
  [{ name: "\ufeff" }, "name", "name"], // without a visible character, as the next two
  [{ name: "\u200b" }, "name"],
  [{ name: "\u180e\u200d" }, "name"],
  [{ bio: "x".repeat(1001) }, "bio"],
])("PUT /user/profile: refuses %j", async (body, ...fields) => {
  const { browser, accessToken } = await app.signIn();
  const answer = await browser.put("/user/profile", body, accessToken);
  expect(answer).toMatchObject({
    status: 400,
    body: { code: "VALIDATION_FAILED", violations: fields.map((field) => ({ field })) },
  });
});
