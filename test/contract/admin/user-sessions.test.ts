import { expect, test } from "vitest";
import { signInAdmin } from "../../support/admin.ts";
import { testApp } from "../../support/app.ts";

const app = await testApp();

test("GET /admin/users/:id/sessions: lists the open sessions as a bare array", async () => {
  const admin = await signInAdmin(app);
  const { user } = await app.signIn();
  const { body } = await admin.get(`/admin/users/${user.id}/sessions`);
  expect(body).toEqual([
    {
      id: expect.any(String),
      device: expect.any(String),
      ip: expect.stringMatching(/^10\./),
      createdAt: expect.stringMatching(/Z$/),
      lastActive: expect.stringMatching(/Z$/),
      current: false,
    },
  ]);
  expect((await admin.get(`/admin/users/${admin.user.id}/sessions`)).body[0].current).toBe(true);
});

test("DELETE /admin/users/:id/sessions: ends every session, access tokens included", async () => {
  const admin = await signInAdmin(app);
  const { user, browser, accessToken } = await app.signIn();
  const { browser: other } = await app.signIn(user);
  expect((await admin.delete(`/admin/users/${user.id}/sessions`)).status).toBe(200);
  expect((await browser.get("/user/profile", accessToken)).status).toBe(401);
  expect((await other.post("/auth/refresh")).status).toBe(401);
  expect((await admin.get(`/admin/users/${user.id}/sessions`)).body).toEqual([]);
});
