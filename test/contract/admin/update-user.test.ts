import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { auditOf, signInAdmin } from "../../support/admin.ts";
import { testApp } from "../../support/app.ts";
import { mfaTokenFor, setUpFactor } from "../../support/authenticator.ts";

const app = await testApp();

test("PUT /admin/users/:id: changes the given fields and returns the user", async () => {
  const admin = await signInAdmin(app);
  const user = await app.addUser();
  const { status, body } = await admin.put(`/admin/users/${user.id}`, { name: " Bea ", emailVerified: true });
  expect(status).toBe(200);
  expect(body).toEqual({
    message: expect.any(String),
    user: {
      id: user.id,
      email: user.email,
      name: "Bea",
      role: "user",
      emailVerified: true,
      mfaEnabled: false,
      locked: false,
      createdAt: expect.stringMatching(/Z$/),
      updatedAt: expect.stringMatching(/Z$/),
    },
  });
  const changed = await admin.put(`/admin/users/${user.id}`, { emailVerified: false });
  expect(changed.body.user.emailVerified).toBe(false);
  app.clock.advance("1m");
  expect((await admin.put(`/admin/users/${user.id}`, {})).body).toEqual(changed.body); // no change, and no event
  expect(await auditOf(app, user.id, "admin.user_updated")).toHaveLength(2);
});

test("PUT /admin/users/:id: moves an account to another address, unverified, and notifies the old one", async () => {
  const admin = await signInAdmin(app);
  const { user, browser, accessToken } = await app.signIn(await app.addVerifiedUser());
  const elsewhere = `elsewhere-${user.email}`;
  await browser.post("/user/change-email", { newEmail: elsewhere, password: user.password }, accessToken);
  const { token } = await app.mail.emailTo(elsewhere);
  const email = `${randomUUID()}@Example.com`;
  const { body } = await admin.put(`/admin/users/${user.id}`, { email });
  expect(body.user).toMatchObject({ email, emailVerified: false });
  expect((await browser.get("/user/profile", accessToken)).status).toBe(401);
  expect((await app.mail.emailTo(user.email, /was changed/)).text).toContain(email);
  expect((await app.httpClient().post("/auth/verify-email", { token })).status).toBe(400);
  expect((await app.httpClient().post("/auth/login", user.credentials)).status).toBe(401);
  expect((await app.httpClient().post("/auth/login", { ...user.credentials, email })).status).toBe(200);
  const taken = await admin.put(`/admin/users/${user.id}`, { email: admin.user.email.toUpperCase() });
  expect(taken).toMatchObject({ status: 409, body: { code: "EMAIL_TAKEN" } });
  const [denied] = await auditOf(app, user.id, "admin.denied");
  expect(denied).toMatchObject({ actor_id: admin.user.id, details: { reason: "EMAIL_TAKEN", rpc: "UpdateUser" } });
});

test("PUT /admin/users/:id: mailed links stay good when only the spelling of the address changes", async () => {
  const [admin, user] = [await signInAdmin(app), await app.addUser()];
  const { token: verification } = await app.mail.emailTo(user.email);
  await app.httpClient().post("/auth/forgot-password", { email: user.email });
  const { token: reset } = await app.mail.emailTo(user.email, /Reset/);
  expect((await admin.put(`/admin/users/${user.id}`, { email: user.email.toUpperCase() })).status).toBe(200);
  expect((await app.httpClient().post("/auth/verify-email", { token: verification })).status).toBe(200);
  const body = { token: reset, password: "Brand-new-2" };
  expect((await app.httpClient().post("/auth/reset-password", body)).status).toBe(200);
});

test("PUT /admin/users/:id: shows and clears the lock of the second factor", async () => {
  const admin = await signInAdmin(app);
  const { user, authenticator } = await setUpFactor(app);
  const search = `search=${encodeURIComponent(user.email)}`;
  const found = async (query = "") => (await admin.get(`/admin/users?${search}${query}`)).body.items;
  const verify = async (code: string) =>
    app.httpClient().post("/auth/verify-mfa", { tempToken: await mfaTokenFor(app, user), code });
  expect(await found("&locked=false")).toMatchObject([{ id: user.id, locked: false }]);
  for (let i = 0; i < 5; i++) await verify("000000");
  expect((await verify(await authenticator.code())).status).toBe(423);
  expect(await found()).toMatchObject([{ id: user.id, locked: true }]);
  expect(await found("&locked=true")).toHaveLength(1);
  expect(await found("&locked=false")).toEqual([]);
  expect((await admin.put(`/admin/users/${user.id}`, { locked: false })).body.user.locked).toBe(false);
  expect(await found("&locked=true")).toEqual([]);
  expect((await verify(await authenticator.code())).status).toBe(200);
});

test("PUT /admin/users/:id: unlocks the new address and leaves the old address locked", async () => {
  const admin = await signInAdmin(app);
  const user = await app.addUser();
  const email = `moved-${user.email}`;
  const guess = (at: string) => app.httpClient().post("/auth/login", { email: at, password: "Wrong-1-guess" });
  for (let i = 0; i < 5; i++) await Promise.all([guess(user.email), guess(email)]);
  const changed = await admin.put(`/admin/users/${user.id}`, { email, locked: false });
  expect(changed.body.user).toMatchObject({ email, locked: false });
  expect((await app.httpClient().post("/auth/login", { ...user.credentials, email })).status).toBe(200);
  expect(await app.sql("select 1 from attempts where subject = ?", [user.email])).toEqual([]);
});

test("PUT /admin/users/:id: removes a second factor, ends the sessions and notifies by mail", async () => {
  const admin = await signInAdmin(app);
  const { user, browser, accessToken } = await app.signIn();
  expect((await admin.put(`/admin/users/${user.id}`, { mfaEnabled: false })).status).toBe(200);
  expect((await browser.get("/user/profile", accessToken)).status).toBe(200); // there was none
  await app.sql("update users set mfa_secret = 'x', mfa_confirmed_at = now() where id = ?", [user.id]);
  expect((await admin.put(`/admin/users/${user.id}`, { mfaEnabled: false })).body.user.mfaEnabled).toBe(false);
  await app.mail.emailTo(user.email, /Two-factor sign-in is off/);
  expect((await browser.get("/user/profile", accessToken)).status).toBe(401);
});

test("PUT /admin/users/:id: wrong codes for a removed second factor do not lock the next one", async () => {
  const admin = await signInAdmin(app);
  const { user } = await setUpFactor(app);
  const verify = async (code: string) =>
    app.httpClient().post("/auth/verify-mfa", { tempToken: await mfaTokenFor(app, user), code });
  for (let i = 0; i < 5; i++) await verify("000000");
  expect((await verify("000000")).status).toBe(423);
  await admin.put(`/admin/users/${user.id}`, { mfaEnabled: false });
  const { authenticator } = await setUpFactor(app, user);
  expect((await verify(await authenticator.code())).status).toBe(200);
});

test("PUT /admin/users/:id: a promotion ends impersonations; a demotion ends the sessions at once", async () => {
  const admin = await signInAdmin(app);
  const { user, browser, accessToken } = await app.signIn();
  const { body } = await admin.post(`/admin/impersonate/${user.id}`);
  await admin.put(`/admin/users/${user.id}`, { role: "admin" });
  expect((await browser.get("/user/profile", body.accessToken)).status).toBe(401);
  expect((await browser.get("/admin/users?limit=1", accessToken)).status).toBe(200);
  expect((await admin.put(`/admin/users/${user.id}`, { role: "user" })).body.user.role).toBe("user");
  expect((await browser.get("/admin/users?limit=1", accessToken)).status).toBe(401);
  expect((await browser.get("/user/profile", accessToken)).status).toBe(401);
});

test.each([
  [{ role: "root" }, "role"],
  [{ locked: true }, "locked"],
  [{ mfaEnabled: true }, "mfaEnabled"],
  [{ name: "" }, "name"],
  [{ email: "not-an-address" }, "email"],
])("PUT /admin/users/:id: refuses %j", async (body, field) => {
  const admin = await signInAdmin(app);
  const answer = await admin.put(`/admin/users/${admin.user.id}`, body);
  expect(answer).toMatchObject({ status: 400, body: { violations: [{ field }] } });
});

test("/admin: refuses to demote, delete or impersonate the caller, however the id is spelled, and records the attempt", async () => {
  const admin = await signInAdmin(app);
  const refused = { status: 409, body: { code: "SELF_TARGETED" } };
  const capitals = admin.user.id.toUpperCase();
  expect(await admin.put(`/admin/users/${capitals}`, { role: "user" })).toMatchObject(refused);
  expect(await admin.delete(`/admin/users/${capitals}`)).toMatchObject(refused);
  expect(await admin.post(`/admin/impersonate/${capitals}`)).toMatchObject(refused);
  const own = `/admin/users/${admin.user.id}`;
  expect(await admin.put(own, { role: "user" })).toMatchObject(refused);
  expect(await admin.delete(own)).toMatchObject(refused);
  const denied = await auditOf(app, admin.user.id, "admin.denied");
  expect(denied.map(({ actor_id, outcome, details }) => ({ actor_id, outcome, ...details }))).toEqual(
    ["DeleteUser", "UpdateUser", "Impersonate", "DeleteUser", "UpdateUser"].map((rpc) => {
      return { actor_id: admin.user.id, outcome: "failure", reason: "SELF_TARGETED", rpc };
    }),
  );
});

const accessChanges = [{ email: "moved@example.com" }, { emailVerified: true }, { mfaEnabled: false }];

test.each(accessChanges)(
  "PUT /admin/users/:id: refuses %j of the caller and of other administrators",
  async (change) => {
    const admin = await signInAdmin(app);
    const other = await app.addUser({ role: "admin" });
    for (const { id } of [admin.user, other]) {
      await app.sql("update users set mfa_secret = 'set' where id = ?", [id]);
      const expected = { status: 409, body: { code: id === other.id ? "CONFLICT" : "SELF_TARGETED" } };
      expect(await admin.put(`/admin/users/${id}`, change)).toMatchObject(expected);
      expect((await admin.put(`/admin/users/${id}`, { name: "Bea" })).status).toBe(200);
    }
    await admin.put(`/admin/users/${other.id}`, { role: "user" });
    const unique = "email" in change ? { email: `moved-${other.id}@example.com` } : change;
    expect((await admin.put(`/admin/users/${other.id}`, unique)).status).toBe(200);
  },
);
