import { describe, expect, test } from "vitest";
import { AdminService } from "../../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { auditOf, denialsOf } from "../../support/admin.ts";
import { startSuiteApp, type TestApp, testApp } from "../../support/app.ts";
import { mfaTokenFor, setUpFactor } from "../../support/authenticator.ts";

const shared = await testApp();

/** An administrator whose sign-in is older than an hour, with a fresh access token. */
async function signInLongAgo(app: TestApp) {
  const { user, browser } = await app.signIn(await app.addUser({ role: "admin" }));
  app.clock.advance("61m");
  const { accessToken } = (await browser.post("/auth/refresh")).body;
  return { user, browser, accessToken };
}

test("PUT /admin/users/:id, POST /admin/impersonate/:userId: need a sign-in within the last hour", async () => {
  const { user: admin, browser, accessToken } = await signInLongAgo(shared);
  const target = await shared.addUser();
  const required = { status: 403, body: { code: "REAUTHENTICATION_REQUIRED" } };
  for (const id of [target.id, admin.id, "00000000-0000-7000-8000-000000000000"]) {
    for (const change of [
      { role: "admin" },
      { email: "x@example.com" },
      { emailVerified: true },
      { mfaEnabled: false },
    ]) {
      expect(await browser.put(`/admin/users/${id}`, change, accessToken)).toMatchObject(required);
    }
    expect(await browser.post(`/admin/impersonate/${id}`, {}, accessToken)).toMatchObject(required);
  }
  const denied = await auditOf(shared, target.id, "admin.denied");
  expect(denied).toHaveLength(5);
  expect(denied[0]).toMatchObject({ actor_id: admin.id, details: { reason: "REAUTHENTICATION_REQUIRED" } });
  const allowed = { name: "Bea", locked: false };
  expect((await browser.put(`/admin/users/${target.id}`, allowed, accessToken)).status).toBe(200);
  const again = await shared.signIn(admin);
  expect((await again.browser.put(`/admin/users/${target.id}`, { role: "admin" }, again.accessToken)).status).toBe(200);
});

describe("Settings ADMIN_REAUTH=0, REQUIRE_ADMIN_MFA=on", async () => {
  const app = await startSuiteApp({ env: { ADMIN_REAUTH: "0", REQUIRE_ADMIN_MFA: "on" } });

  test("GET /admin/users: is 403 until the administrator has signed in with a confirmed factor", async () => {
    const admin = await app.addUser({ role: "admin" });
    const required = { status: 403, body: { code: "MFA_REQUIRED" } };
    const { browser, accessToken, authenticator } = await setUpFactor(app, admin);
    expect(await browser.get("/admin/users", accessToken)).toMatchObject(required);
    const signIn = async (factor: object) => {
      const { body } = await browser.post("/auth/verify-mfa", { tempToken: await mfaTokenFor(app, admin), ...factor });
      return body.accessToken as string;
    };
    const unconfirmed = await signIn({ backupCode: authenticator.backupCodes[0] });
    expect(await browser.get("/admin/users", unconfirmed)).toMatchObject(required);
    const confirmed = await signIn({ code: await authenticator.code() });
    expect((await browser.get("/admin/users", confirmed)).status).toBe(200);
    expect(await browser.get("/admin/users", accessToken)).toMatchObject(required); // without the factor
    expect((await browser.get("/user/profile", accessToken)).status).toBe(200);
    const client = app.grpc(AdminService);
    const headers = { headers: { authorization: `Bearer ${accessToken}` } };
    await expect(client.listUsers({}, headers)).rejects.toThrow("second factor");
    await expect(client.listUsers({}, { headers: { authorization: `Bearer ${confirmed}` } })).resolves.toBeTruthy();
    expect(await denialsOf(app, admin.id)).toContainEqual(
      expect.objectContaining({ reason: "MFA_REQUIRED", rpc: "ListUsers" }),
    );
  });

  test("PUT /admin/users/:id: a sign-in of any age may change roles", async () => {
    const { user, browser, authenticator } = await setUpFactor(app, await app.addUser({ role: "admin" }));
    const code = await authenticator.code();
    await browser.post("/auth/verify-mfa", { tempToken: await mfaTokenFor(app, user), code });
    app.clock.advance("6d");
    const { accessToken } = (await browser.post("/auth/refresh")).body;
    const target = await app.addUser();
    expect((await browser.put(`/admin/users/${target.id}`, { role: "admin" }, accessToken)).status).toBe(200);
  });
});
