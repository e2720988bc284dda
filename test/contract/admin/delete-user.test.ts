import { expect, test } from "vitest";
import { signInAdmin } from "../../support/admin.ts";
import { testApp } from "../../support/app.ts";

const app = await testApp();

test("DELETE /admin/users/:id: erases the user at once; the audit log keeps a pseudonym", async () => {
  const admin = await signInAdmin(app);
  const { user, browser, accessToken } = await app.signIn();
  await app.mail.emailTo(user.email);
  expect((await admin.delete(`/admin/users/${user.id}`)).status).toBe(200);
  expect((await browser.get("/user/profile", accessToken)).status).toBe(401);
  expect((await app.httpClient().post("/auth/login", user.credentials)).status).toBe(401);
  expect((await admin.delete(`/admin/users/${user.id}`)).status).toBe(404);
  const { body } = await admin.get(`/admin/audit-logs?userId=${user.id}`);
  expect(body.items.map(({ event }: { event: string }) => event)).toEqual(
    expect.arrayContaining(["user.erased", "admin.user_deleted", "auth.login", "auth.register"]),
  );
  expect(JSON.stringify(body)).not.toContain(user.email);
  expect((await admin.get(`/admin/email-logs?to=${user.email}`)).body.total).toBe(0);
  expect((await app.addUser({ email: user.email })).id).not.toBe(user.id);
});
