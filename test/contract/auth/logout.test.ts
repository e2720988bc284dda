import { expect, test } from "vitest";
import { testApp } from "../../support/app.ts";
import { withToken } from "../../support/http/client.ts";

const app = await testApp();

test("POST /auth/logout: ends the session immediately and clears the cookie", async () => {
  const mine = await app.signIn();
  const other = await app.signIn(mine.user);
  const answer = await mine.post("/auth/logout");
  expect(answer).toMatchObject({ status: 200, body: { message: expect.any(String) } });
  expect(answer.headers.get("set-cookie")).toMatch(/^refreshToken=; Max-Age=0; Path=\/auth/);
  expect([await mine.profileStatus(), await other.profileStatus()]).toEqual([401, 200]);
  expect((await app.refresh(mine.refreshToken)).status).toBe(401);
});

test("POST /auth/logout: also ends the session of the cookie if it is another one of the same user", async () => {
  const { user, browser, accessToken, post } = await app.signIn();
  const { body } = await browser.post("/auth/login", user.credentials);
  expect((await post("/auth/logout")).status).toBe(200);
  for (const token of [accessToken, body.accessToken])
    expect(await app.profileStatus(token)).toBe(401);
  const [other, { headers }] = [await app.signIn(), await app.signIn()];
  const foreign = { cookie: `refreshToken=${other.refreshToken}`, ...headers };
  expect((await app.httpClient().send("POST", "/auth/logout", undefined, foreign)).status).toBe(
    200,
  );
  expect(await other.profileStatus()).toBe(200);
});

test("POST /auth/logout: ends an impersonation and keeps the administrator's cookie", async () => {
  const { id } = await app.addUser();
  const { browser, post } = await app.signIn(await app.addUser({ role: "admin" }));
  const impersonated = withToken(
    browser,
    (await post(`/admin/impersonate/${id}`, {})).body.accessToken,
  );
  const answer = await impersonated.post("/auth/logout");
  expect([answer.status, answer.headers.get("set-cookie")]).toEqual([200, null]);
  expect(await impersonated.profileStatus()).toBe(401);
  expect((await browser.post("/auth/refresh")).status).toBe(200);
});
