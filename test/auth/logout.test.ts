import { describe, expect, test } from "vitest";
import { testApp } from "../app.ts";

const app = await testApp();

describe("POST /auth/logout", () => {
  test("ends the session at once and clears the cookie", async () => {
    const { user, browser, accessToken, refreshToken } = await app.signIn();
    const other = await app.signIn(user);
    const answer = await browser.post("/auth/logout", undefined, accessToken);
    expect(answer).toMatchObject({ status: 200, body: { message: expect.any(String) } });
    expect(answer.headers.get("set-cookie")).toMatch(/^refreshToken=; Max-Age=0; Path=\/auth/);
    expect((await browser.get("/user/profile", accessToken)).status).toBe(401);
    expect(
      (await app.visitor().send("POST", "/auth/refresh", undefined, { cookie: `refreshToken=${refreshToken}` })).status,
    ).toBe(401);
    expect((await other.browser.get("/user/profile", other.accessToken)).status).toBe(200);
    const events = await app.sql("select event from audit_events where user_id = ? and event = 'auth.logout'", [
      user.id,
    ]);
    expect(events).toHaveLength(1);
  });

  test("needs an access token", async () => {
    const answer = await app.visitor().post("/auth/logout");
    expect(answer).toMatchObject({ status: 401, body: { code: "UNAUTHENTICATED" } });
    expect(answer.headers.get("www-authenticate")).toBe("Bearer");
  });
});
