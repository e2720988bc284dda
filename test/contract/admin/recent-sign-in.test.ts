import { describe, expect, test } from "vitest";
import { AdminService } from "../../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { startSuiteApp, type TestApp, testApp } from "../../support/app.ts";
import { withToken } from "../../support/http/client.ts";
import { refusal } from "../../support/http/responses.ts";

const shared = await testApp();

/** An administrator whose sign-in is older than an hour, with a fresh access token. */
async function signInLongAgo(app: TestApp) {
  const { user, browser } = await app.signInAdmin();
  app.clock.advance("61m");
  return { user, ...withToken(browser, (await browser.post("/auth/refresh")).body.accessToken) };
}

test("PUT /admin/users/:id, POST /admin/impersonate/:userId: require a sign-in within the last hour", async () => {
  const { user: admin, put, post } = await signInLongAgo(shared);
  const target = await shared.addUser();
  const required = refusal(403, "REAUTHENTICATION_REQUIRED");
  const changes = [
    { role: "admin", password: admin.password },
    { email: "x@example.com" },
    { emailVerified: true },
    { mfaEnabled: false },
  ];
  for (const id of [target.id, admin.id, "00000000-0000-7000-8000-000000000000"]) {
    for (const change of changes)
      expect(await put(`/admin/users/${id}`, change)).toMatchObject(required);
    expect(await post(`/admin/impersonate/${id}`, {})).toMatchObject(required);
  }
  const denied = await shared.auditOf(target.id, "admin.denied");
  expect(denied).toHaveLength(5);
  expect(denied[0]).toMatchObject({
    actor_id: admin.id,
    details: { reason: "REAUTHENTICATION_REQUIRED" },
  });
  expect((await put(`/admin/users/${target.id}`, { name: "Bea", locked: false })).status).toBe(200);
  const again = await shared.signIn(admin);
  expect((await shared.changeRole(again, target.id, "admin")).status).toBe(200);
});

test("DELETE /admin/users/:id: requires a sign-in within the last hour if the user is or recently was an administrator", async () => {
  const caller = await signInLongAgo(shared);
  const recent = await shared.signIn(caller.user);
  const [other, demoted, user] = [
    await shared.addUser({ role: "admin" }),
    await shared.addUser({ role: "admin" }),
    await shared.addUser(),
  ];
  await shared.changeRole(recent, demoted.id, "user");
  const required = refusal(403, "REAUTHENTICATION_REQUIRED");
  for (const { id } of [other, demoted]) {
    expect(await caller.delete(`/admin/users/${id}`)).toMatchObject(required);
    const [denied] = await shared.auditOf(id, "admin.denied");
    expect(denied?.details).toMatchObject({ reason: "REAUTHENTICATION_REQUIRED" });
    expect((await recent.delete(`/admin/users/${id}`)).status).toBe(200);
  }
  expect((await caller.delete(`/admin/users/${user.id}`)).status).toBe(200);
  expect(await caller.delete(`/admin/users/${user.id}`)).toMatchObject(refusal(404, "NOT_FOUND"));
});

describe("Settings ADMIN_REAUTH=0, REQUIRE_ADMIN_MFA=on", async () => {
  const app = await startSuiteApp({ env: { ADMIN_REAUTH: "0", REQUIRE_ADMIN_MFA: "on" } });

  test("GET /admin/users: is 403 until the administrator has signed in with a confirmed factor", async () => {
    const admin = await app.addUser({ role: "admin" });
    const required = refusal(403, "MFA_REQUIRED");
    const plain = await app.setUpFactor(admin);
    const { authenticator } = plain;
    expect(await plain.get("/admin/users")).toMatchObject(required);
    const signIn = async (factor: object) =>
      withToken(app.httpClient(), (await app.signInBy(admin, factor)).body.accessToken);
    const unconfirmed = await signIn({ backupCode: authenticator.backupCodes[0] });
    expect(await unconfirmed.get("/admin/users")).toMatchObject(required);
    const confirmed = await signIn({ code: await authenticator.code() });
    expect((await confirmed.get("/admin/users")).status).toBe(200);
    expect(await plain.get("/admin/users")).toMatchObject(required); // without the factor
    expect(await plain.profileStatus()).toBe(200);
    const client = app.grpc(AdminService);
    await expect(client.listUsers({}, plain)).rejects.toThrow("second factor");
    await expect(client.listUsers({}, confirmed)).resolves.toBeTruthy();
    const denial = expect.objectContaining({ reason: "MFA_REQUIRED", rpc: "ListUsers" });
    expect(await app.denialsOf(admin.id)).toContainEqual(denial);
  });

  test("PUT /admin/users/:id: a sign-in of any age may change roles", async () => {
    const { user, authenticator } = await app.setUpFactor(await app.addUser({ role: "admin" }));
    const { body } = await app.signInBy(user, { code: await authenticator.code() });
    app.clock.advance("6d");
    const refreshed = (await app.refresh(body.refreshToken)).body;
    const target = await app.addUser();
    const { put } = withToken(app.httpClient(), refreshed.accessToken);
    const promotion = { role: "admin", password: user.password };
    expect((await put(`/admin/users/${target.id}`, promotion)).status).toBe(200);
  });
});
