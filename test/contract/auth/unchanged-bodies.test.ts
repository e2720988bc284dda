import { expect, test } from "vitest";
import { testApp } from "../../support/app.ts";
import type { HttpResponse } from "../../support/http/client.ts";

const app = await testApp();

/** A body as it was sent, with a word for each token and time. */
const masked = ({ text }: HttpResponse) =>
  text
    .replace(/"(accessToken|refreshToken|tempToken)":"[\w.-]+"/g, '"$1":"token"')
    .replace(/"(\w+At)":"\d{4}-\d\d-\d\dT[\d:.]+Z"/g, '"$1":"time"');

test("POST /auth/login, /auth/refresh, GET /user/profile: answer a password account byte for byte as before", async () => {
  const { id, email, name, credentials } = await app.addUser();
  const browser = app.httpClient();
  const login = await browser.post("/auth/login", credentials);
  const owner = { id, email, name, role: "user" };
  const tokens = { accessToken: "token", refreshToken: "token" };
  expect(masked(login)).toBe(JSON.stringify({ ...tokens, user: owner, requiresMfa: false }));
  const cookies = login.headers.getSetCookie().map((line) => line.split("=")[0]);
  expect(cookies).toEqual(["refreshToken", "device"]);
  expect(masked(await browser.post("/auth/refresh"))).toBe(JSON.stringify(tokens));
  const profile = await browser.get("/user/profile", login.body.accessToken);
  const times = { createdAt: "time", updatedAt: "time", passwordExpiresAt: "time" };
  const state = { emailVerified: false, mfaEnabled: false };
  expect(masked(profile)).toBe(JSON.stringify({ ...owner, ...state, ...times }));
});

test("POST /auth/login, /auth/verify-mfa, GET /user/profile: answer an account with TOTP byte for byte as before", async () => {
  const { user, authenticator } = await app.setUpConfirmedFactor();
  const browser = app.httpClient();
  const login = await browser.post("/auth/login", user.credentials);
  expect(masked(login)).toBe(JSON.stringify({ requiresMfa: true, tempToken: "token" }));
  const factor = { tempToken: login.body.tempToken, code: await authenticator.code() };
  const verified = await browser.post("/auth/verify-mfa", factor);
  const { id, email, name } = user;
  const tokens = { accessToken: "token", refreshToken: "token" };
  expect(masked(verified)).toBe(JSON.stringify({ ...tokens, user: { id, email } }));
  const profile = await browser.get("/user/profile", verified.body.accessToken);
  const state = { id, email, name, role: "user", emailVerified: false, mfaEnabled: true };
  const times = { createdAt: "time", updatedAt: "time", passwordExpiresAt: "time" };
  expect(masked(profile)).toBe(JSON.stringify({ ...state, ...times, mfaConfirmed: true }));
});

test("POST /user/change-password: names a missing current password first, as before", async () => {
  const { post } = await app.signIn();
  const { body } = await post("/user/change-password", {});
  expect(body.violations.map(({ field }: { field: string }) => field)[0]).toBe("currentPassword");
  expect(body.violations[0].message).toBe("must be 1 to 128 characters");
});
