import { expect, test } from "vitest";
import { testApp } from "../../support/app.ts";
import { invalid, refusal, TEXT, TIME, userShape } from "../../support/http/responses.ts";
import { tally, times } from "../../support/tally.ts";

const app = await testApp();

test("GET /user/profile: returns only the documented fields", async () => {
  const { user, get } = await app.signIn();
  const { status, body } = await get("/user/profile");
  const { locked: _, ...shape } = userShape(user);
  expect({ status, body }).toEqual({ status: 200, body: { ...shape, passwordExpiresAt: TIME } });
});

test("GET /user/profile: is 401 with an expired access token", async () => {
  const account = await app.signIn();
  expect(await account.profileStatus()).toBe(200); // the token is cached from here on
  app.clock.advance("15m");
  expect(await account.get("/user/profile")).toMatchObject(refusal(401, "UNAUTHENTICATED"));
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
  expect(await app.profileStatus(accessToken)).toBe(200);
});

test("PUT /user/profile: changes name and bio, and leaves absent fields unchanged", async () => {
  const { user, get, ...account } = await app.signIn();
  const put = async (body: object) => (await account.put("/user/profile", body)).body;
  expect(await put({ name: "  Bea  " })).toEqual({
    message: TEXT,
    user: { id: user.id, name: "Bea", bio: "" },
  });
  const changed = { id: user.id, name: "Bea", bio: "Likes 🦜\r\n& <b>" };
  expect((await put({ bio: changed.bio })).user).toEqual(changed);
  expect((await put({})).user).toEqual(changed);
  expect((await get("/user/profile")).body).toMatchObject(changed);
  expect((await put({ bio: "" })).user.bio).toBe("");
});

test("PUT /user/profile: stores the language in its canonical form, and leaves it unchanged if absent", async () => {
  const { user, get, put } = await app.signIn();
  expect((await get("/user/profile")).body).not.toHaveProperty("locale");
  const { body } = await put("/user/profile", { locale: "de-at" });
  expect(body.user).toEqual({ id: user.id, name: user.name, bio: "", locale: "de-AT" });
  await put("/user/profile", { bio: "Hi" });
  expect((await get("/user/profile")).body).toMatchObject({ bio: "Hi", locale: "de-AT" });
  expect((await get("/user/export")).body.profile.locale).toBe("de-AT");
});

const INVALID: { body: object; violations: string[] }[] = [
  { body: { name: "" }, violations: ["name"] },
  { body: { name: "   " }, violations: ["name"] },
  { body: { name: "x".repeat(101) }, violations: ["name"] },
  { body: { name: "a\u0000b" }, violations: ["name"] },
  { body: { name: "\ufeff" }, violations: ["name", "name"] }, // without a visible character, as the next two
  { body: { name: "\u200b" }, violations: ["name"] },
  { body: { name: "\u180e\u200d" }, violations: ["name"] },
  { body: { bio: "x".repeat(1001) }, violations: ["bio"] },
  { body: { locale: "" }, violations: ["locale"] },
  { body: { locale: "Deutsch" }, violations: ["locale"] },
  { body: { locale: "de_AT" }, violations: ["locale"] },
  { body: { locale: "en-abcde-abcde" }, violations: ["locale"] }, // a variant twice
  { body: { locale: `en-x-${"a".repeat(31)}` }, violations: ["locale"] },
  { body: { locale: "en-x-aaaaaaa-aaaaaaa-aaaaaaa-aaaaaaa" }, violations: ["locale"] }, // 36 characters
  { body: { locale: "en-t-fr-u-ca-islamicc-nu-latn-kn-co" }, violations: ["locale"] }, // longer in its canonical form
];

test.for(INVALID)("PUT /user/profile: rejects $body", async ({ body, violations }) => {
  const { put } = await app.signIn();
  expect(await put("/user/profile", body)).toMatchObject(invalid(...violations));
});
