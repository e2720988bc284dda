import { expect, test } from "vitest";
import { AdminService } from "../../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { NEW_PASSWORD, WRONG_PASSWORD } from "../../support/accounts.ts";
import { createKey, createService, keyStatus } from "../../support/api-keys.ts";
import { testApp } from "../../support/app.ts";
import { withToken } from "../../support/http/client.ts";
import { refusal, TIME } from "../../support/http/responses.ts";
import { passkeyActions } from "../../support/passkeys.ts";

const app = await testApp();
const passkeys = passkeyActions(app);
const SUSPENDED = refusal(403, "ACCOUNT_SUSPENDED");

type Admin = Awaited<ReturnType<typeof app.signInAdmin>>;
const setSuspended = (admin: Admin, id: string, suspended: boolean) =>
  admin.put(`/admin/users/${id}`, { suspended });

test("PUT /admin/users/:id, suspended: ends the sessions immediately, and the right password is 403 until reinstated", async () => {
  const [admin, account] = [await app.signInAdmin(), await app.signIn()];
  const { user, accessToken, refreshToken } = account;
  const { status, body } = await setSuspended(admin, user.id, true);
  expect([status, body.user.suspendedAt]).toEqual([200, TIME]);
  expect(await app.profileStatus(accessToken)).toBe(401);
  expect((await app.refresh(refreshToken)).status).toBe(401);
  expect(await app.login(user.email)).toMatchObject(SUSPENDED);
  expect((await setSuspended(admin, user.id, false)).body.user).not.toHaveProperty("suspendedAt");
  expect(await app.profileStatus(accessToken)).toBe(401);
  expect((await app.login(user.email)).status).toBe(200);
});

test("POST /auth/login: a wrong password of a suspended account gets the same response as for any account", async () => {
  const [admin, user] = [await app.signInAdmin(), await app.addUser()];
  await setSuspended(admin, user.id, true);
  expect(await app.login(user.email, WRONG_PASSWORD)).toMatchObject(
    refusal(401, "INVALID_CREDENTIALS"),
  );
});

test("POST /auth/login: correct passwords of a suspended account never lock it", async () => {
  const [admin, user] = [await app.signInAdmin(), await app.addUser()];
  await setSuspended(admin, user.id, true);
  for (let i = 0; i < 4; i++) await app.guess(user.email);
  expect(await app.login(user.email)).toMatchObject(SUSPENDED);
  const [event] = await app.auditOf(user.id, "auth.login_failed");
  expect(event).toMatchObject({ details: { reason: "ACCOUNT_SUSPENDED" }, outcome: "failure" });
  expect(await app.auditOf(user.id, "auth.locked")).toEqual([]);
});

test("POST /auth/verify-mfa: a pending sign-in is 403 if the account has been suspended since", async () => {
  const admin = await app.signInAdmin();
  const { user, authenticator } = await app.setUpConfirmedFactor();
  const tempToken = await app.mfaTokenFor(user);
  await setSuspended(admin, user.id, true);
  const answer = await app.verifyMfa(tempToken, { code: await authenticator.code() });
  expect(answer).toMatchObject(SUSPENDED);
  const [sessions] = await app.sql<{ open: number }>(
    "select count(*)::int as open from sessions where user_id = ? and revoked_at is null",
    [user.id],
  );
  expect(sessions?.open).toBe(0);
});

test("POST /auth/verify-passkey: a passkey of a suspended account is 403", async () => {
  const [admin, { user, authenticator }] = [await app.signInAdmin(), await passkeys.addUser()];
  await setSuspended(admin, user.id, true);
  expect(await passkeys.signIn(authenticator)).toMatchObject(SUSPENDED);
  await setSuspended(admin, user.id, false);
  expect((await passkeys.signIn(authenticator)).status).toBe(200);
});

test("PUT /admin/users/:id, suspended: API keys are refused until reinstated, including those of service accounts", async () => {
  const admin = await app.signInAdmin();
  const account = await app.signIn(await app.addVerifiedUser());
  const [own, service] = [await createKey(account), await createService(app)];
  const keys = [own.key, service.key];
  for (const [suspended, expected] of [
    [true, 401],
    [false, 200],
  ] as const) {
    for (const id of [account.user.id, service.id])
      expect((await setSuspended(admin, id, suspended)).status).toBe(200);
    for (const key of keys) await expect.poll(() => keyStatus(app, key)).toBe(expected);
  }
});

test("POST /auth/login: a sign-in during the suspension leaves no open session", async () => {
  const [admin, user] = [await app.signInAdmin(), await app.addUser()];
  const [answers] = await Promise.all([
    Promise.all(Array.from({ length: 4 }, () => app.login(user.email))),
    setSuspended(admin, user.id, true),
  ]);
  for (const { body } of answers)
    if (body.accessToken) expect(await app.profileStatus(body.accessToken)).toBe(401);
});

test("PUT /admin/users/:id, suspended: a password reset does not reinstate the account", async () => {
  const [admin, user] = [await app.signInAdmin(), await app.addVerifiedUser()];
  await setSuspended(admin, user.id, true);
  await app.httpClient().post("/auth/forgot-password", { email: user.email });
  const { token } = await app.mail.emailTo(user.email, /Reset/);
  expect((await app.resetPassword(token)).status).toBe(200);
  expect(await app.login(user.email, NEW_PASSWORD)).toMatchObject(SUSPENDED);
});

test("PUT /admin/users/:id, suspended: is refused for oneself and other administrators, as is a promotion while suspended", async () => {
  const admin = await app.signInAdmin();
  const [other, user] = [await app.addUser({ role: "admin" }), await app.addUser()];
  expect(await setSuspended(admin, admin.user.id, true)).toMatchObject(
    refusal(409, "SELF_TARGETED"),
  );
  expect(await setSuspended(admin, other.id, true)).toMatchObject(refusal(409, "CONFLICT"));
  await setSuspended(admin, user.id, true);
  expect(await app.changeRole(admin, user.id, "admin")).toMatchObject(refusal(409, "CONFLICT"));
  const demoted = { role: "user", suspended: true, password: admin.user.password };
  expect((await admin.put(`/admin/users/${other.id}`, demoted)).status).toBe(200);
  expect(await app.login(other.email)).toMatchObject(SUSPENDED);
});

test("POST /admin/impersonate/:userId: is 409 for a suspended user", async () => {
  const [admin, user] = [await app.signInAdmin(), await app.addUser()];
  await setSuspended(admin, user.id, true);
  expect(await admin.post(`/admin/impersonate/${user.id}`, {})).toMatchObject(
    refusal(409, "CONFLICT"),
  );
});

test("PUT /admin/users/:id, suspended: requires a recent sign-in, over REST and gRPC", async () => {
  const admin = await app.signInAdmin();
  const user = await app.addUser();
  const client = app.grpc(AdminService);
  const { user: changed } = await client.updateUser({ id: user.id, suspended: true }, admin);
  expect(changed?.suspendedAt).toBeDefined();
  app.clock.advance("61m");
  const { accessToken } = (await admin.browser.post("/auth/refresh")).body;
  const old = withToken(admin.browser, accessToken);
  expect(await old.put(`/admin/users/${user.id}`, { suspended: false })).toMatchObject(
    refusal(403, "REAUTHENTICATION_REQUIRED"),
  );
  await expect(client.updateUser({ id: user.id, suspended: false }, old)).rejects.toThrow(
    "recent sign-in",
  );
});

test("GET /admin/users: filters by suspended", async () => {
  const admin = await app.signInAdmin();
  const [one, other] = [await app.addUser(), await app.addUser()];
  await setSuspended(admin, one.id, true);
  const idsOf = async (query: string): Promise<string[]> =>
    (await admin.get(`/admin/users?limit=100&${query}`)).body.items.map(
      ({ id }: { id: string }) => id,
    );
  const found = await idsOf("suspended=true");
  expect(found).toContain(one.id);
  expect(found).not.toContain(other.id);
  expect(await idsOf(`suspended=false&search=${other.email}`)).toEqual([other.id]);
  expect(await idsOf(`suspended=false&search=${one.email}`)).toEqual([]);
});
