import { decodeJwt } from "jose";
import { expect } from "vitest";
import type { Authenticator } from "../../support/account-actions.ts";
import { PASSWORD, type SignedIn, type TestUser } from "../../support/accounts.ts";
import type { TestApp } from "../../support/app.ts";
import { freshEmail, NEW_PASSWORD, newAccount, WRONG_PASSWORD } from "../../support/credentials.ts";
import { until } from "../../support/until.ts";

/** A request, ready to be sent, and the details of the events that it records. */
export type AuditCase = {
  /** Method and path. */
  route: string;
  body?: unknown;
  token?: string | undefined;
  cookie?: string;
  /** Details by event, in the order of the names. */
  events: Record<string, object>;
  /** The user of every event. */
  user?: string;
  /** The actor of every event; null for an unknown caller. */
  actor?: string | null;
};
/** The part of a case that depends on an account. */
type Prepared = Partial<AuditCase> | Promise<Partial<AuditCase>>;

const LOGIN = "POST /auth/login";

/** Cases by the name of the method, with the circumstances where they matter. */
export function auditCases(app: TestApp): Record<string, () => Promise<AuditCase>> {
  /** A request of a new account that has signed in. */
  const own =
    (route: string, events: AuditCase["events"], prepare: (account: SignedIn) => Prepared = () => ({})) =>
    async (): Promise<AuditCase> => {
      const account = await app.signIn();
      const [token, user] = [account.accessToken, account.user.id];
      return { route, events, token, user, actor: user, ...(await prepare(account)) };
    };
  /** A request without a token about a new account, which becomes the actor unless it fails. */
  const open =
    (route: string, events: AuditCase["events"], prepare: (user: TestUser) => Prepared) =>
    async (): Promise<AuditCase> => {
      const user = await app.addUser();
      return { route, events, user: user.id, actor: user.id, ...(await prepare(user)) };
    };
  /** A request with an MFA token. */
  const verifyMfa = (
    events: AuditCase["events"],
    prepare: (factor: Authenticator) => object | Promise<object>,
    guesses = 0,
  ) =>
    open("POST /auth/verify-mfa", events, async (user) => {
      const { authenticator } = await app.setUpFactor(user);
      const factor = await prepare(authenticator);
      const body = { tempToken: await app.mfaTokenFor(user), ...factor };
      for (let i = 0; i < guesses; i++) await app.httpClient().post("/auth/verify-mfa", body);
      return { body, ...("auth.mfa_failed" in events && { actor: null }) };
    });
  /** A request of an administrator about a new user. */
  const admin =
    (route: string, events: AuditCase["events"], body?: object, prepare = async (user: TestUser) => user.id) =>
    async (): Promise<AuditCase> => {
      const [{ user: actor, accessToken: token }, { user }] = [await app.signInAdmin(), await app.signIn()];
      const aimed = route.replace(":id", await prepare(user));
      return { route: aimed, events, body, token, user: user.id, actor: actor.id };
    };
  /** The id of the only e-mail of a user, whose delivery has failed. */
  const failedEmail = async ({ id }: TestUser) => {
    const sent = () => app.sql("select 1 from emails where user_id = ? and status = 'sent'", [id]);
    await until("the e-mail to be sent", async () => (await sent()).length > 0);
    await app.sql("update emails set status = 'failed', next_attempt_at = null where user_id = ?", [id]);
    return (await app.sql<{ id: string }>("select id from emails where user_id = ?", [id]))[0]?.id as string;
  };

  return {
    "Register, a new account": async () => {
      const request = { route: "POST /auth/register", body: newAccount() };
      return { ...request, events: { "auth.register": {} }, actor: expect.any(String) };
    },
    "Login, a right password": open(LOGIN, { "auth.login": {} }, (user) => ({ body: user.credentials })),
    "Login, a wrong password": open(LOGIN, { "auth.login_failed": {} }, ({ email }) => ({
      body: { email, password: WRONG_PASSWORD },
      actor: null,
    })),
    "Login, the fifth wrong password": open(
      LOGIN,
      { "auth.locked": {}, "auth.login_failed": {} },
      async ({ email }) => {
        const body = { email, password: WRONG_PASSWORD };
        for (let i = 0; i < 4; i++) await app.guess(email);
        return { body, actor: null };
      },
    ),
    "Login, an account about to be deleted": open(LOGIN, { "auth.login": {}, "user.restored": {} }, async (user) => {
      await (await app.signIn(user)).post("/user/delete-account", {});
      return { body: user.credentials };
    }),
    "VerifyMfa, a code": verifyMfa({ "auth.login": {}, "auth.mfa_verified": { method: "totp" } }, async (factor) => ({
      code: await factor.code(),
    })),
    "VerifyMfa, a backup code": verifyMfa(
      { "auth.backup_code_used": { left: 9 }, "auth.login": {}, "auth.mfa_verified": { method: "backup-code" } },
      ({ backupCodes }) => ({ backupCode: backupCodes[0] }),
    ),
    "VerifyMfa, a wrong code": verifyMfa({ "auth.mfa_failed": {} }, () => ({ code: "000000" })),
    "VerifyMfa, the fifth wrong code": verifyMfa(
      { "auth.locked": { factor: "second" }, "auth.mfa_failed": {} },
      () => ({ code: "000000" }),
      4,
    ),
    Logout: own("POST /auth/logout", { "auth.logout": {} }),
    "Refresh, the present token": own("POST /auth/refresh", {}, ({ refreshToken }) => ({
      token: undefined,
      cookie: `refreshToken=${refreshToken}`,
    })),
    "Refresh, a token of the past": own("POST /auth/refresh", {}, async ({ browser, refreshToken }) => {
      const { body } = await browser.post("/auth/refresh");
      await browser.get("/user/profile", body.accessToken);
      const events = { "auth.refresh_reused": { sessionId: decodeJwt(refreshToken).sid } };
      return { token: undefined, cookie: `refreshToken=${refreshToken}`, events, actor: null };
    }),
    "VerifyEmail, a new account": open("POST /auth/verify-email", { "auth.email_verified": {} }, async ({ email }) => ({
      body: { token: (await app.mail.emailTo(email)).token },
    })),
    "VerifyEmail, a new address": open("POST /auth/verify-email", { "user.email_changed": {} }, async (user) => {
      const newEmail = freshEmail();
      await (await app.signIn(user)).post("/user/change-email", { newEmail, password: PASSWORD });
      return { body: { token: (await app.mail.emailTo(newEmail)).token } };
    }),
    ResendVerification: open("POST /auth/resend-verification", {}, ({ email }) => ({ body: { email } })),
    ForgotPassword: open("POST /auth/forgot-password", { "auth.password_reset_requested": {} }, ({ email }) => ({
      body: { email },
    })),
    ResetPassword: open("POST /auth/reset-password", { "auth.password_reset": {} }, async () => {
      const { id: user, email } = await app.addVerifiedUser();
      return { body: { token: await app.resetTokenFor(email), password: NEW_PASSWORD }, user, actor: user };
    }),
    SetupTotp: own("POST /auth/setup-totp", { "auth.mfa_setup": {} }),
    DisableTotp: own("POST /auth/disable-totp", { "auth.mfa_disabled": {} }, async ({ user }) => ({
      token: (await app.setUpFactor(user)).accessToken,
      body: { password: PASSWORD },
    })),
    CreateBackupCodes: own(
      "POST /auth/backup-codes",
      { "auth.mfa_setup": { renewed: "backup-codes" } },
      async ({ user }) => {
        const { accessToken: token, authenticator } = await app.setUpFactor(user);
        return { token, body: { password: PASSWORD, code: await authenticator.code() } };
      },
    ),
    UpdateProfile: own("PUT /user/profile", { "user.profile_updated": {} }, () => ({ body: { name: "Bea" } })),
    ChangePassword: own("POST /user/change-password", { "user.password_changed": {} }, () => ({
      body: { currentPassword: PASSWORD, newPassword: NEW_PASSWORD },
    })),
    "ChangePassword, a wrong password": own("POST /user/change-password", { "auth.login_failed": {} }, () => ({
      body: { currentPassword: WRONG_PASSWORD, newPassword: NEW_PASSWORD },
    })),
    ChangeEmail: own("POST /user/change-email", {}, () => ({ body: { newEmail: freshEmail(), password: PASSWORD } })),
    ExportData: own("GET /user/export", { "user.exported": { page: 1 } }),
    RevokeSession: own("DELETE /user/sessions/:id", {}, async (account) => {
      const [{ id: sessionId }] = await account.sessions();
      return { route: `DELETE /user/sessions/${sessionId}`, events: { "user.session_revoked": { sessionId } } };
    }),
    RevokeOtherSessions: own("DELETE /user/sessions", { "user.session_revoked": { others: 1 } }, async ({ user }) => {
      await app.signIn(user);
      return {};
    }),
    DeleteAccount: own("POST /user/delete-account", { "user.deletion_requested": {} }, () => ({ body: {} })),
    UpdateUser: admin(
      "PUT /admin/users/:id",
      { "admin.user_updated": { fields: ["name", "role"], role: "admin" } },
      { name: "Bea", role: "admin" },
    ),
    DeleteUser: admin("DELETE /admin/users/:id", { "admin.user_deleted": {}, "user.erased": {} }),
    RevokeUserSessions: admin("DELETE /admin/users/:id/sessions", { "admin.sessions_revoked": { sessions: 1 } }),
    RetryEmail: admin(
      "POST /admin/email-logs/:id/retry",
      { "admin.email_retried": { emailId: expect.any(String) } },
      undefined,
      failedEmail,
    ),
    Impersonate: admin(
      "POST /admin/impersonate/:id",
      { "admin.impersonated": { sessionId: expect.any(String), reason: "Ticket 7" } },
      { reason: "Ticket 7" },
    ),
    "Impersonate, an administrator": async () => {
      const [{ user: actor, accessToken: token }, { user }] = [await app.signInAdmin(), await app.signInAdmin()];
      const events = { "admin.denied": { reason: "CONFLICT", rpc: "Impersonate" } };
      return { route: `POST /admin/impersonate/${user.id}`, body: {}, token, events, user: user.id, actor: actor.id };
    },
  };
}
