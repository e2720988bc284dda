import { expect, test } from "vitest";
import { testApp } from "../../support/app.ts";

const app = await testApp();

test("POST /auth/logout: ends the session at once and clears the cookie", async () => {
  const { user, browser, accessToken, refreshToken } = await app.signIn();
  const other = await app.signIn(user);
  const answer = await browser.post("/auth/logout", undefined, accessToken);
  expect(answer).toMatchObject({ status: 200, body: { message: expect.any(String) } });
  expect(answer.headers.get("set-cookie")).toMatch(/^refreshToken=; Max-Age=0; Path=\/auth/);
  expect((await browser.get("/user/profile", accessToken)).status).toBe(401);
  const cookie = { cookie: `refreshToken=${refreshToken}` };
  expect((await app.httpClient().send("POST", "/auth/refresh", undefined, cookie)).status).toBe(401);
  expect((await other.browser.get("/user/profile", other.accessToken)).status).toBe(200);
});

test("POST /auth/logout: also ends the session of the cookie, if it is another one of the user", async () => {
  const { user, browser, accessToken } = await app.signIn();
  const { body } = await browser.post("/auth/login", user.credentials);
  expect((await browser.post("/auth/logout", undefined, accessToken)).status).toBe(200);
  for (const token of [accessToken, body.accessToken]) {
    expect((await browser.get("/user/profile", token)).status).toBe(401);
  }
  const other = await app.signIn();
  const cookie = {
    cookie: `refreshToken=${other.refreshToken}`,
    authorization: `Bearer ${(await app.signIn()).accessToken}`,
  };
  expect((await app.httpClient().send("POST", "/auth/logout", undefined, cookie)).status).toBe(200);
  expect((await other.browser.get("/user/profile", other.accessToken)).status).toBe(200);
});

test("POST /auth/logout: keeps the administrator's cookie when an impersonation ends", async () => {
  const { user } = await app.signIn();
  const { browser, accessToken } = await app.signIn(await app.addUser({ role: "admin" }));
  const { body } = await browser.post(`/admin/impersonate/${user.id}`, {}, accessToken);
  const answer = await browser.post("/auth/logout", undefined, body.accessToken);
  expect(answer.status).toBe(200);
  expect(answer.headers.get("set-cookie")).toBeNull();
  expect((await browser.get("/user/profile", body.accessToken)).status).toBe(401);
  expect((await browser.post("/auth/refresh")).status).toBe(200);
});

test("POST /auth/logout: needs an access token", async () => {
  const answer = await app.httpClient().post("/auth/logout");
  expect(answer).toMatchObject({ status: 401, body: { code: "UNAUTHENTICATED" } });
  expect(answer.headers.get("www-authenticate")).toBe("Bearer");
});
