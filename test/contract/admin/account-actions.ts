import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import type { TestUser } from "../../support/accounts.ts";
import { signInAdmin } from "../../support/admin.ts";
import type { TestApp } from "../../support/app.ts";
import { until } from "../../support/until.ts";
import {
  type AuditCases,
  type AuditedRequest,
  type Case,
  nothing,
  own,
  post,
  withDetails,
  wrong,
} from "./audit-cases.ts";

/** The cases of the UserService. */
export function userActions(app: TestApp): AuditCases {
  const account = () => app.signIn();
  return {
    UpdateProfile: async () => {
      const { user, accessToken } = await account();
      const request = { method: "PUT", path: "/user/profile", body: { name: "Bea" }, token: accessToken };
      return { request, expected: own(user, "user.profile_updated") };
    },
    ChangePassword: async () => {
      const { user, accessToken } = await account();
      const body = { currentPassword: user.password, newPassword: "Other-horse-1" };
      return {
        request: post("/user/change-password", body, accessToken),
        expected: own(user, "user.password_changed"),
      };
    },
    "ChangePassword, a wrong password": async () => {
      const { user, accessToken } = await account();
      const body = { currentPassword: wrong, newPassword: "Other-horse-1" };
      const expected = own(user, "auth.login_failed");
      return { request: post("/user/change-password", body, accessToken), expected };
    },
    ChangeEmail: async () => {
      const { user, accessToken } = await account();
      const body = { newEmail: `${randomUUID()}@example.com`, password: user.password };
      return { request: post("/user/change-email", body, accessToken), expected: nothing };
    },
    ExportData: async () => {
      const { user, accessToken } = await account();
      const expected = withDetails({ "user.exported": { page: 1 } }, own(user, "user.exported"));
      return { request: { method: "GET", path: "/user/export", token: accessToken }, expected };
    },
    RevokeSession: async () => {
      const { user, browser, accessToken } = await account();
      const [session] = (await browser.get("/user/sessions", accessToken)).body;
      const request = { method: "DELETE", path: `/user/sessions/${session.id}`, token: accessToken };
      const details = { "user.session_revoked": { sessionId: session.id } };
      return { request, expected: withDetails(details, own(user, "user.session_revoked")) };
    },
    RevokeOtherSessions: async () => {
      const { user, accessToken } = await account();
      await app.signIn(user);
      const request = { method: "DELETE", path: "/user/sessions", token: accessToken };
      const details = { "user.session_revoked": { others: 1 } };
      return { request, expected: withDetails(details, own(user, "user.session_revoked")) };
    },
    DeleteAccount: async () => {
      const { user, accessToken } = await account();
      return { request: post("/user/delete-account", {}, accessToken), expected: own(user, "user.deletion_requested") };
    },
  };
}

/** The cases of the AdminService. */
export function adminActions(app: TestApp): AuditCases {
  async function asAdmin(
    make: (user: TestUser, admin: TestUser) => AuditedRequest | Promise<AuditedRequest>,
    details: Record<string, object>,
  ): Promise<Case> {
    const [admin, { user }] = [await signInAdmin(app), await app.signIn()];
    const request = { ...(await make(user, admin.user)), token: admin.accessToken };
    return { request, expected: { events: Object.keys(details), user: user.id, actor: admin.user.id, details } };
  }

  return {
    UpdateUser: () =>
      asAdmin(({ id }) => ({ method: "PUT", path: `/admin/users/${id}`, body: { name: "Bea", role: "admin" } }), {
        "admin.user_updated": { fields: ["name", "role"], role: "admin" },
      }),
    DeleteUser: () =>
      asAdmin(({ id }) => ({ method: "DELETE", path: `/admin/users/${id}` }), {
        "admin.user_deleted": {},
        "user.erased": {},
      }),
    RevokeUserSessions: () =>
      asAdmin(({ id }) => ({ method: "DELETE", path: `/admin/users/${id}/sessions` }), {
        "admin.sessions_revoked": { sessions: 1 },
      }),
    RetryEmail: () =>
      asAdmin(
        async ({ id }) => {
          const sent = () => app.sql("select 1 from emails where user_id = ? and status = 'sent'", [id]);
          await until("the e-mail to be sent", async () => (await sent()).length > 0);
          await app.sql("update emails set status = 'failed', next_attempt_at = null where user_id = ?", [id]);
          const [row] = await app.sql<{ id: string }>("select id from emails where user_id = ?", [id]);
          return post(`/admin/email-logs/${row?.id}/retry`);
        },
        { "admin.email_retried": { emailId: expect.any(String) } },
      ),
    Impersonate: () =>
      asAdmin(({ id }) => post(`/admin/impersonate/${id}`, { reason: "Ticket 7" }), {
        "admin.impersonated": { sessionId: expect.any(String), reason: "Ticket 7" },
      }),
    "Impersonate, an administrator": async () => {
      const [admin, other] = [await signInAdmin(app), await signInAdmin(app)];
      const request = post(`/admin/impersonate/${other.user.id}`, {}, admin.accessToken);
      const details = { "admin.denied": { reason: "CONFLICT", rpc: "Impersonate" } };
      return { request, expected: { events: ["admin.denied"], user: other.user.id, actor: admin.user.id, details } };
    },
  };
}
