import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import type { TestUser } from "../../support/accounts.ts";
import { signInAdmin } from "../../support/admin.ts";
import type { TestApp } from "../../support/app.ts";
import { until } from "../../support/until.ts";
import { type AuditCases, type AuditedRequest, type Case, nothing, own, post, telling, wrong } from "./audit-cases.ts";

/** What the UserService does. */
export function userActions(app: TestApp): AuditCases {
  const account = () => app.signIn();
  return {
    UpdateProfile: {
      always: async () => {
        const { user, accessToken } = await account();
        const deed = { method: "PUT", path: "/user/profile", body: { name: "Bea" }, token: accessToken };
        return { deed, trail: own(user, "user.profile_updated") };
      },
    },
    ChangePassword: {
      always: async () => {
        const { user, accessToken } = await account();
        const body = { currentPassword: user.password, newPassword: "Other-horse-1" };
        return { deed: post("/user/change-password", body, accessToken), trail: own(user, "user.password_changed") };
      },
      "a wrong password": async () => {
        const { user, accessToken } = await account();
        const body = { currentPassword: wrong, newPassword: "Other-horse-1" };
        const trail = { ...own(user, "auth.login_failed") };
        return { deed: post("/user/change-password", body, accessToken), trail };
      },
    },
    ChangeEmail: {
      always: async () => {
        const { user, accessToken } = await account();
        const body = { newEmail: `${randomUUID()}@example.com`, password: user.password };
        return { deed: post("/user/change-email", body, accessToken), trail: nothing };
      },
    },
    ExportData: {
      always: async () => {
        const { user, accessToken } = await account();
        const trail = telling({ "user.exported": { page: 1 } }, own(user, "user.exported"));
        return { deed: { method: "GET", path: "/user/export", token: accessToken }, trail };
      },
    },
    RevokeSession: {
      always: async () => {
        const { user, browser, accessToken } = await account();
        const [session] = (await browser.get("/user/sessions", accessToken)).body;
        const deed = { method: "DELETE", path: `/user/sessions/${session.id}`, token: accessToken };
        const details = { "user.session_revoked": { sessionId: session.id } };
        return { deed, trail: telling(details, own(user, "user.session_revoked")) };
      },
    },
    RevokeOtherSessions: {
      always: async () => {
        const { user, accessToken } = await account();
        await app.signIn(user);
        const deed = { method: "DELETE", path: "/user/sessions", token: accessToken };
        const details = { "user.session_revoked": { others: 1 } };
        return { deed, trail: telling(details, own(user, "user.session_revoked")) };
      },
    },
    DeleteAccount: {
      always: async () => {
        const { user, accessToken } = await account();
        return { deed: post("/user/delete-account", {}, accessToken), trail: own(user, "user.deletion_requested") };
      },
    },
  };
}

/** What the AdminService does. */
export function adminActions(app: TestApp): AuditCases {
  async function asAdmin(
    make: (user: TestUser, admin: TestUser) => AuditedRequest | Promise<AuditedRequest>,
    details: Record<string, object>,
  ): Promise<Case> {
    const [admin, { user }] = [await signInAdmin(app), await app.signIn()];
    const deed = { ...(await make(user, admin.user)), token: admin.accessToken };
    return { deed, trail: { events: Object.keys(details), user: user.id, actor: admin.user.id, details } };
  }

  return {
    UpdateUser: {
      always: () =>
        asAdmin(({ id }) => ({ method: "PUT", path: `/admin/users/${id}`, body: { name: "Bea", role: "admin" } }), {
          "admin.user_updated": { fields: ["name", "role"], role: "admin" },
        }),
    },
    DeleteUser: {
      always: () =>
        asAdmin(({ id }) => ({ method: "DELETE", path: `/admin/users/${id}` }), {
          "admin.user_deleted": {},
          "user.erased": {},
        }),
    },
    RevokeUserSessions: {
      always: () =>
        asAdmin(({ id }) => ({ method: "DELETE", path: `/admin/users/${id}/sessions` }), {
          "admin.sessions_revoked": { sessions: 1 },
        }),
    },
    RetryEmail: {
      always: () =>
        asAdmin(
          async ({ id }) => {
            const sent = () => app.sql("select 1 from emails where user_id = ? and status = 'sent'", [id]);
            await until("the letter to be settled", async () => (await sent()).length > 0);
            await app.sql("update emails set status = 'failed', next_attempt_at = null where user_id = ?", [id]);
            const [row] = await app.sql<{ id: string }>("select id from emails where user_id = ?", [id]);
            return post(`/admin/email-logs/${row?.id}/retry`);
          },
          { "admin.email_retried": { emailId: expect.any(String) } },
        ),
    },
    Impersonate: {
      always: () =>
        asAdmin(({ id }) => post(`/admin/impersonate/${id}`, { reason: "Ticket 7" }), {
          "admin.impersonated": { sessionId: expect.any(String), reason: "Ticket 7" },
        }),
      "an administrator": async () => {
        const [admin, other] = [await signInAdmin(app), await signInAdmin(app)];
        const deed = post(`/admin/impersonate/${other.user.id}`, {}, admin.accessToken);
        const details = { "admin.denied": { reason: "CONFLICT", rpc: "Impersonate" } };
        return { deed, trail: { events: ["admin.denied"], user: other.user.id, actor: admin.user.id, details } };
      },
    },
  };
}
