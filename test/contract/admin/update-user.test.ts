import { randomUUID } from "node:crypto";
import { test as base, expect } from "vitest";
import { WRONG_CODE } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { invalid, refusal, userShape } from "../../support/http/responses.ts";

const app = await testApp();
const test = base.extend("admin", () => app.signInAdmin());

test("PUT /admin/users/:id: changes the given fields and returns the user", async ({ admin }) => {
  const user = await app.addUser();
  const { status, body } = await admin.put(`/admin/users/${user.id}`, {
    name: " Bea ",
    emailVerified: true,
  });
  const shape = { ...userShape({ ...user, name: "Bea" }), emailVerified: true };
  expect({ status, body }).toEqual({
    status: 200,
    body: { message: expect.any(String), user: shape },
  });
  const changed = await admin.put(`/admin/users/${user.id}`, { emailVerified: false });
  expect(changed.body.user.emailVerified).toBe(false);
  app.clock.advance("1m");
  expect((await admin.put(`/admin/users/${user.id}`, {})).body).toEqual(changed.body); // no change, and no event
  expect(await app.auditOf(user.id, "admin.user_updated")).toHaveLength(2);
});

test("PUT /admin/users/:id: moves an account to an unverified address, and notifies the old one", async ({
  admin,
}) => {
  const account = await app.signIn(await app.addVerifiedUser());
  const { user } = account;
  const elsewhere = `elsewhere-${user.email}`;
  await account.post("/user/change-email", { newEmail: elsewhere, password: user.password });
  const { token } = await app.mail.emailTo(elsewhere);
  const email = `${randomUUID()}@Example.com`;
  const { body } = await admin.put(`/admin/users/${user.id}`, { email });
  expect(body.user).toMatchObject({ email, emailVerified: false });
  expect(await account.profileStatus()).toBe(401);
  expect((await app.mail.emailTo(user.email, /was changed/)).text).toContain(email);
  expect((await app.verifyEmail(token)).status).toBe(400);
  expect([(await app.login(user.email)).status, (await app.login(email)).status]).toEqual([
    401, 200,
  ]);
  const taken = await admin.put(`/admin/users/${user.id}`, {
    email: admin.user.email.toUpperCase(),
  });
  expect(taken).toMatchObject(refusal(409, "EMAIL_TAKEN"));
});

test("PUT /admin/users/:id: mailed links stay valid if only the spelling of the address changes", async ({
  admin,
}) => {
  const user = await app.addUser();
  const { token } = await app.mail.emailTo(user.email);
  const reset = await app.resetTokenFor(user.email);
  expect(
    (await admin.put(`/admin/users/${user.id}`, { email: user.email.toUpperCase() })).status,
  ).toBe(200);
  expect((await app.verifyEmail(token)).status).toBe(200);
  expect((await app.resetPassword(reset)).status).toBe(200);
});

test("PUT /admin/users/:id: a lock of the second factor is shown and can be removed", async ({
  admin,
}) => {
  const { user, authenticator } = await app.setUpFactor();
  const search = `search=${encodeURIComponent(user.email)}`;
  const found = async (query = "") =>
    (await admin.get(`/admin/users?${search}${query}`)).body.items;
  const verify = async () =>
    (await app.signInBy(user, { code: await authenticator.code() })).status;
  expect(await found("&locked=false")).toMatchObject([{ id: user.id, locked: false }]);
  for (let i = 0; i < 5; i++) await app.signInBy(user, WRONG_CODE);
  expect(await verify()).toBe(423);
  expect(await found()).toMatchObject([{ id: user.id, locked: true }]);
  expect(await found("&locked=true")).toHaveLength(1);
  expect(await found("&locked=false")).toEqual([]);
  expect((await admin.put(`/admin/users/${user.id}`, { locked: false })).body.user.locked).toBe(
    false,
  );
  expect(await found("&locked=true")).toEqual([]);
  expect(await verify()).toBe(200);
});

test("PUT /admin/users/:id: a move to a locked address unlocks it, and deletes the failed attempts of the old address", async ({
  admin,
}) => {
  const user = await app.addUser();
  const email = `moved-${user.email}`;
  await Promise.all([app.lock(user.email), app.lock(email)]);
  const changed = await admin.put(`/admin/users/${user.id}`, { email, locked: false });
  expect(changed.body.user).toMatchObject({ email, locked: false });
  expect((await app.login(email)).status).toBe(200);
  expect(await app.sql("select 1 from attempts where subject = ?", [user.email])).toEqual([]);
});

test("PUT /admin/users/:id: removes a second factor, ends the sessions and notifies the user by e-mail", async ({
  admin,
}) => {
  const account = await app.signIn();
  const { id, email } = account.user;
  expect((await admin.put(`/admin/users/${id}`, { mfaEnabled: false })).status).toBe(200);
  expect(await account.profileStatus()).toBe(200); // there was none
  await app.sql("update users set mfa_secret = 'x', mfa_confirmed_at = now() where id = ?", [id]);
  expect((await admin.put(`/admin/users/${id}`, { mfaEnabled: false })).body.user.mfaEnabled).toBe(
    false,
  );
  await app.mail.emailTo(email, /Two-factor authentication is off/);
  expect(await account.profileStatus()).toBe(401);
});

test("PUT /admin/users/:id: wrong codes of a removed second factor do not lock the next one", async ({
  admin,
}) => {
  const { user } = await app.setUpFactor();
  for (let i = 0; i < 5; i++) await app.signInBy(user, WRONG_CODE);
  expect((await app.signInBy(user, WRONG_CODE)).status).toBe(423);
  await admin.put(`/admin/users/${user.id}`, { mfaEnabled: false });
  await app.setUpConfirmedFactor(user);
});

test("PUT /admin/users/:id: a promotion takes effect immediately, and a demotion ends the sessions", async ({
  admin,
}) => {
  const account = await app.signIn();
  await app.changeRole(admin, account.user.id, "admin");
  expect((await account.get("/admin/users?limit=1")).status).toBe(200);
  const demoted = await app.changeRole(admin, account.user.id, "user");
  expect(demoted.body.user.role).toBe("user");
  expect((await account.get("/admin/users?limit=1")).status).toBe(401);
  expect(await account.profileStatus()).toBe(401);
});

test.each([
  [{ role: "root" }, "role"],
  [{ locked: true }, "locked"],
  [{ mfaEnabled: true }, "mfaEnabled"],
  [{ name: "" }, "name"],
  [{ email: "not-an-address" }, "email"],
])("PUT /admin/users/:id: rejects %j", async (body, field) => {
  const admin = await app.signInAdmin();
  expect(await admin.put(`/admin/users/${admin.user.id}`, body)).toMatchObject(invalid(field));
});

test("/admin: callers cannot demote, delete or impersonate themselves, and each attempt is recorded", async ({
  admin,
}) => {
  const refused = refusal(409, "SELF_TARGETED");
  for (const id of [admin.user.id.toUpperCase(), admin.user.id]) {
    expect(await admin.put(`/admin/users/${id}`, { role: "user" })).toMatchObject(refused);
    expect(await admin.delete(`/admin/users/${id}`)).toMatchObject(refused);
    expect(await admin.post(`/admin/impersonate/${id}`)).toMatchObject(refused);
  }
  const denial = { user_id: admin.user.id, outcome: "failure", reason: "SELF_TARGETED" };
  const denials = ["UpdateUser", "DeleteUser", "Impersonate"].map((rpc) => ({ ...denial, rpc }));
  expect(await app.denialsOf(admin.user.id)).toEqual([...denials, ...denials]);
});

const changes = [{ email: "moved@example.com" }, { emailVerified: true }, { mfaEnabled: false }];
test.for(changes)(
  "PUT /admin/users/:id: refuses %j for the caller and other administrators",
  async (change, { admin }) => {
    const other = await app.addUser({ role: "admin" });
    for (const { id } of [admin.user, other]) {
      await app.sql("update users set mfa_secret = 'set' where id = ?", [id]);
      const refused = refusal(409, id === other.id ? "CONFLICT" : "SELF_TARGETED");
      expect(await admin.put(`/admin/users/${id}`, change)).toMatchObject(refused);
      expect((await admin.put(`/admin/users/${id}`, { name: "Bea" })).status).toBe(200);
    }
  },
);
