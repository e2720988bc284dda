import { expect, test } from "vitest";
import { AdminService } from "../../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { freshEmail, NEW_PASSWORD } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { withToken } from "../../support/http/client.ts";
import { invalid, refusal } from "../../support/http/responses.ts";
import { statusesOf } from "../../support/tally.ts";

const app = await testApp();
const REQUIRED = refusal(403, "REAUTHENTICATION_REQUIRED");

test("POST /admin/users: creates an account without a password, until the owner sets one with the mailed token", async () => {
  const admin = await app.signInAdmin();
  const email = freshEmail();
  const { status, body } = await admin.post("/admin/users", { email, name: "Bea" });
  expect(status).toBe(201);
  expect(body.user).toMatchObject({ email, name: "Bea", role: "user", emailVerified: false });
  expect((await app.login(email, "no account has this password")).status).toBe(401);
  const { token, subject } = await app.mail.emailTo(email);
  expect(subject).toBe("You are invited");
  expect((await app.resetPassword(token)).status).toBe(200);
  const signedIn = await app.login(email, NEW_PASSWORD);
  expect(signedIn.status).toBe(200);
  const { get } = withToken(app.httpClient(), signedIn.body.accessToken);
  expect((await get("/user/profile")).body.emailVerified).toBe(true);
  expect((await app.resetPassword(token)).status).toBe(400);
  const [event] = await app.auditOf(body.user.id, "admin.user_invited");
  expect(event).toMatchObject({ actor_id: admin.user.id, details: { role: "user" } });
});

test("POST /admin/users: an invitation expires after 7 days", async () => {
  const admin = await app.signInAdmin();
  const [early, late] = [freshEmail(), freshEmail()];
  for (const email of [early, late]) await admin.post("/admin/users", { email, name: "Bea" });
  const tokens = [await app.mail.emailTo(early), await app.mail.emailTo(late)];
  app.clock.advance("6d");
  expect((await app.resetPassword(tokens[0]?.token)).status).toBe(200);
  app.clock.advance("25h");
  expect((await app.resetPassword(tokens[1]?.token)).status).toBe(400);
});

test("POST /admin/users: one of 10 concurrent invitations of an address succeeds, and one e-mail is sent", async () => {
  const admin = await app.signInAdmin();
  const email = freshEmail();
  const invite = () => admin.post("/admin/users", { email, name: "Bea" });
  expect(await statusesOf(10, invite)).toEqual({ 201: 1, 409: 9 });
  expect(await invite()).toMatchObject(refusal(409, "EMAIL_TAKEN"));
  expect(await app.sql('select 1 from emails where "to" = ?', [email])).toHaveLength(1);
});

test("POST /admin/users: inviting an administrator requires the password or a confirmation", async () => {
  const { user: admin, post } = await app.signInAdmin();
  const invite = (more: object) =>
    post("/admin/users", { email: freshEmail(), name: "Bea", role: "admin", ...more });
  expect(await invite({})).toMatchObject(REQUIRED);
  const { status, body } = await invite({ password: admin.password });
  expect([status, body.user.role]).toEqual([201, "admin"]);
  await post("/auth/confirm", { password: admin.password });
  expect((await invite({})).status).toBe(201);
});

test("POST /admin/users: requires a recent sign-in and valid fields, over REST and gRPC", async () => {
  const { browser, post, headers } = await app.signInAdmin();
  const wrong = { email: "no address", name: "", role: "owner" };
  expect(await post("/admin/users", wrong)).toMatchObject(invalid("email", "name", "role"));
  const client = app.grpc(AdminService);
  const { user } = await client.inviteUser({ email: freshEmail(), name: "Bea" }, { headers });
  expect(user?.role).toBe("user");
  await expect(client.inviteUser({ email: "no", name: "Bea" }, { headers })).rejects.toThrow(
    "email",
  );
  app.clock.advance("61m");
  const old = withToken(browser, (await browser.post("/auth/refresh")).body.accessToken);
  const invitation = { email: freshEmail(), name: "Bea" };
  expect(await old.post("/admin/users", invitation)).toMatchObject(REQUIRED);
  const again = { headers: old.headers };
  await expect(client.inviteUser(invitation, again)).rejects.toThrow("recent sign-in");
});

test("POST /admin/users/:id/reset-access: removes sessions, password and second factor; the mailed token lets the owner back in", async () => {
  const admin = await app.signInAdmin();
  const { user, authenticator } = await app.setUpConfirmedFactor(await app.addVerifiedUser());
  const signedIn = await app.signInBy(user, { code: await authenticator.code() });
  await app.sql("update users set second_factor = true where id = ?", [user.id]);
  const pending = await app.mfaTokenFor(user);
  expect((await admin.post(`/admin/users/${user.id}/reset-access`)).status).toBe(200);
  expect(await app.profileStatus(signedIn.body.accessToken)).toBe(401);
  expect((await app.login(user.email)).status).toBe(401);
  const backupCode = authenticator.backupCodes[0];
  expect((await app.verifyMfa(pending, { backupCode })).status).toBe(401);
  const { token } = await app.mail.emailTo(user.email, /Reset/);
  expect((await app.resetPassword(token)).status).toBe(200);
  expect((await app.login(user.email, NEW_PASSWORD)).body.requiresMfa).toBe(false);
  const [event] = await app.auditOf(user.id, "admin.access_reset");
  expect(event).toMatchObject({ actor_id: admin.user.id });
});

test("POST /admin/users/:id/reset-access: is refused for oneself, another administrator, an unknown user, and in an old session", async () => {
  const admin = await app.signInAdmin();
  const other = await app.addUser({ role: "admin" });
  const reset = (id: string) => admin.post(`/admin/users/${id}/reset-access`);
  expect(await reset(admin.user.id)).toMatchObject(refusal(409, "SELF_TARGETED"));
  expect(await reset(admin.user.id.toUpperCase())).toMatchObject(refusal(409, "SELF_TARGETED"));
  expect(await reset(other.id)).toMatchObject(refusal(409, "CONFLICT"));
  expect(await reset("00000000-0000-7000-8000-000000000000")).toMatchObject(
    refusal(404, "NOT_FOUND"),
  );
  const user = await app.addUser();
  app.clock.advance("61m");
  const { accessToken } = (await admin.browser.post("/auth/refresh")).body;
  const old = withToken(admin.browser, accessToken);
  expect(await old.post(`/admin/users/${user.id}/reset-access`)).toMatchObject(REQUIRED);
  const client = app.grpc(AdminService);
  await expect(client.resetAccess({ id: user.id }, { headers: old.headers })).rejects.toThrow(
    "recent sign-in",
  );
});

test("POST /admin/users/:id/reset-access: a concurrent sign-in leaves no open session", async () => {
  const admin = await app.signInAdmin();
  const user = await app.addUser();
  const [answers] = await Promise.all([
    Promise.all(Array.from({ length: 4 }, () => app.login(user.email))),
    admin.post(`/admin/users/${user.id}/reset-access`),
  ]);
  for (const { body } of answers)
    if (body.accessToken) expect(await app.profileStatus(body.accessToken)).toBe(401);
});
