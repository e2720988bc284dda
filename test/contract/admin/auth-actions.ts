import { randomUUID } from "node:crypto";
import { decodeJwt } from "jose";
import type { TestUser } from "../../support/accounts.ts";
import type { TestApp } from "../../support/app.ts";
import { mfaTokenFor, setUpFactor } from "../../support/authenticator.ts";
import { type AuditCases, type AuditedRequest, failed, nothing, own, post, withDetails, wrong } from "./audit-cases.ts";

/** The cases of the AuthService. */
export function authActions(app: TestApp): AuditCases {
  const account = () => app.signIn();
  async function mailed(
    request: (token: string) => AuditedRequest,
    ask: (user: TestUser) => Promise<unknown>,
    subject: RegExp,
    ...events: string[]
  ) {
    const user = await app.addVerifiedUser();
    await ask(user);
    const { token = "" } = await app.mail.emailTo(user.email, subject);
    return { request: request(token), expected: own(user, ...events) };
  }

  return {
    "Register, a new account": async () => {
      const body = {
        email: `${randomUUID()}@example.com`,
        password: "Correct-horse-1",
        name: "Ann",
        acceptTerms: true,
      };
      return { request: post("/auth/register", body), expected: { events: ["auth.register"] } };
    },
    "Login, a right password": async () => {
      const user = await app.addUser();
      return { request: post("/auth/login", user.credentials), expected: own(user, "auth.login") };
    },
    "Login, a wrong password": async () => {
      const user = await app.addUser();
      return {
        request: post("/auth/login", { email: user.email, password: wrong }),
        expected: failed(user, "auth.login_failed"),
      };
    },
    "Login, the fifth wrong password": async () => {
      const user = await app.addUser();
      const request = post("/auth/login", { email: user.email, password: wrong });
      for (let i = 0; i < 4; i++) await app.httpClient().post(request.path, request.body);
      return { request, expected: failed(user, "auth.locked", "auth.login_failed") };
    },
    "Login, an account about to be deleted": async () => {
      const { user, browser, accessToken } = await account();
      await browser.post("/user/delete-account", {}, accessToken);
      return { request: post("/auth/login", user.credentials), expected: own(user, "auth.login", "user.restored") };
    },
    "VerifyMfa, a code": async () => {
      const { user, authenticator } = await setUpFactor(app);
      const tempToken = await mfaTokenFor(app, user);
      const request = post("/auth/verify-mfa", { tempToken, code: await authenticator.code() });
      const details = { "auth.mfa_verified": { method: "totp" } };
      return { request, expected: withDetails(details, own(user, "auth.login", "auth.mfa_verified")) };
    },
    "VerifyMfa, a backup code": async () => {
      const { user, authenticator } = await setUpFactor(app);
      const tempToken = await mfaTokenFor(app, user);
      const request = post("/auth/verify-mfa", { tempToken, backupCode: authenticator.backupCodes[0] });
      const details = { "auth.backup_code_used": { left: 9 }, "auth.mfa_verified": { method: "backup-code" } };
      const expected = own(user, "auth.backup_code_used", "auth.login", "auth.mfa_verified");
      return { request, expected: withDetails(details, expected) };
    },
    "VerifyMfa, a wrong code": async () => {
      const { user } = await setUpFactor(app);
      const tempToken = await mfaTokenFor(app, user);
      return {
        request: post("/auth/verify-mfa", { tempToken, code: "000000" }),
        expected: failed(user, "auth.mfa_failed"),
      };
    },
    "VerifyMfa, the fifth wrong code": async () => {
      const { user } = await setUpFactor(app);
      const request = post("/auth/verify-mfa", { tempToken: await mfaTokenFor(app, user), code: "000000" });
      for (let i = 0; i < 4; i++) await app.httpClient().post(request.path, request.body);
      const details = { "auth.locked": { factor: "second" } };
      return { request, expected: withDetails(details, failed(user, "auth.locked", "auth.mfa_failed")) };
    },
    Logout: async () => {
      const { user, accessToken } = await account();
      return { request: post("/auth/logout", undefined, accessToken), expected: own(user, "auth.logout") };
    },
    "Refresh, the present token": async () => {
      const { refreshToken } = await account();
      return { request: { ...post("/auth/refresh"), cookie: `refreshToken=${refreshToken}` }, expected: nothing };
    },
    "Refresh, a token of the past": async () => {
      const { user, browser, refreshToken } = await account();
      const { body } = await browser.post("/auth/refresh");
      await browser.get("/user/profile", body.accessToken);
      const request = { ...post("/auth/refresh"), cookie: `refreshToken=${refreshToken}` };
      const details = { "auth.refresh_reused": { sessionId: decodeJwt(refreshToken).sid } };
      return { request, expected: withDetails(details, failed(user, "auth.refresh_reused")) };
    },
    "VerifyEmail, a new account": async () => {
      const user = await app.addUser();
      const { token } = await app.mail.emailTo(user.email);
      return { request: post("/auth/verify-email", { token }), expected: own(user, "auth.email_verified") };
    },
    "VerifyEmail, a new address": async () => {
      const { user, browser, accessToken } = await account();
      const newEmail = `${randomUUID()}@example.com`;
      await browser.post("/user/change-email", { newEmail, password: user.password }, accessToken);
      const { token } = await app.mail.emailTo(newEmail);
      return { request: post("/auth/verify-email", { token }), expected: own(user, "user.email_changed") };
    },
    ResendVerification: async () => {
      const user = await app.addUser();
      return { request: post("/auth/resend-verification", { email: user.email }), expected: nothing };
    },
    ForgotPassword: async () => {
      const user = await app.addUser();
      return {
        request: post("/auth/forgot-password", { email: user.email }),
        expected: { events: ["auth.password_reset_requested"], user: user.id },
      };
    },
    ResetPassword: () =>
      mailed(
        (token) => post("/auth/reset-password", { token, password: "Other-horse-1" }),
        ({ email }) => app.httpClient().post("/auth/forgot-password", { email }),
        /Reset/,
        "auth.password_reset",
      ),
    SetupTotp: async () => {
      const { user, accessToken } = await account();
      return { request: post("/auth/setup-totp", undefined, accessToken), expected: own(user, "auth.mfa_setup") };
    },
    DisableTotp: async () => {
      const { user, accessToken } = await setUpFactor(app);
      const request = post("/auth/disable-totp", { password: user.password }, accessToken);
      return { request, expected: own(user, "auth.mfa_disabled") };
    },
    CreateBackupCodes: async () => {
      const { user, accessToken, authenticator } = await setUpFactor(app);
      const body = { password: user.password, code: await authenticator.code() };
      const expected = withDetails({ "auth.mfa_setup": { renewed: "backup-codes" } }, own(user, "auth.mfa_setup"));
      return { request: post("/auth/backup-codes", body, accessToken), expected };
    },
  };
}
