import { randomUUID } from "node:crypto";
import { decodeJwt } from "jose";
import type { TestUser } from "../../support/accounts.ts";
import type { TestApp } from "../../support/app.ts";
import { mfaTokenFor, setUpFactor } from "../../support/authenticator.ts";
import { type AuditCases, type AuditedRequest, failed, nothing, own, post, telling, wrong } from "./audit-cases.ts";

/** What the AuthService does. */
export function authActions(app: TestApp): AuditCases {
  const account = () => app.signIn();
  async function mailed(
    deed: (token: string) => AuditedRequest,
    ask: (user: TestUser) => Promise<unknown>,
    subject: RegExp,
    ...events: string[]
  ) {
    const user = await app.addVerifiedUser();
    await ask(user);
    const { token = "" } = await app.mail.emailTo(user.email, subject);
    return { deed: deed(token), trail: own(user, ...events) };
  }

  return {
    Register: {
      "a new account": async () => {
        const body = {
          email: `${randomUUID()}@example.com`,
          password: "Correct-horse-1",
          name: "Ann",
          acceptTerms: true,
        };
        return { deed: post("/auth/register", body), trail: { events: ["auth.register"] } };
      },
    },
    Login: {
      "a right password": async () => {
        const user = await app.addUser();
        return { deed: post("/auth/login", user.credentials), trail: own(user, "auth.login") };
      },
      "a wrong password": async () => {
        const user = await app.addUser();
        return {
          deed: post("/auth/login", { email: user.email, password: wrong }),
          trail: failed(user, "auth.login_failed"),
        };
      },
      "the fifth wrong password": async () => {
        const user = await app.addUser();
        const deed = post("/auth/login", { email: user.email, password: wrong });
        for (let i = 0; i < 4; i++) await app.httpClient().post(deed.path, deed.body);
        return { deed, trail: failed(user, "auth.locked", "auth.login_failed") };
      },
      "an account about to be deleted": async () => {
        const { user, browser, accessToken } = await account();
        await browser.post("/user/delete-account", {}, accessToken);
        return { deed: post("/auth/login", user.credentials), trail: own(user, "auth.login", "user.restored") };
      },
    },
    VerifyMfa: {
      "a code": async () => {
        const { user, authenticator } = await setUpFactor(app);
        const tempToken = await mfaTokenFor(app, user);
        const deed = post("/auth/verify-mfa", { tempToken, code: await authenticator.code() });
        const details = { "auth.mfa_verified": { method: "totp" } };
        return { deed, trail: telling(details, own(user, "auth.login", "auth.mfa_verified")) };
      },
      "a backup code": async () => {
        const { user, authenticator } = await setUpFactor(app);
        const tempToken = await mfaTokenFor(app, user);
        const deed = post("/auth/verify-mfa", { tempToken, backupCode: authenticator.backupCodes[0] });
        const details = { "auth.backup_code_used": { left: 9 }, "auth.mfa_verified": { method: "backup-code" } };
        const trail = own(user, "auth.backup_code_used", "auth.login", "auth.mfa_verified");
        return { deed, trail: telling(details, trail) };
      },
      "a wrong code": async () => {
        const { user } = await setUpFactor(app);
        const tempToken = await mfaTokenFor(app, user);
        return {
          deed: post("/auth/verify-mfa", { tempToken, code: "000000" }),
          trail: failed(user, "auth.mfa_failed"),
        };
      },
      "the fifth wrong code": async () => {
        const { user } = await setUpFactor(app);
        const deed = post("/auth/verify-mfa", { tempToken: await mfaTokenFor(app, user), code: "000000" });
        for (let i = 0; i < 4; i++) await app.httpClient().post(deed.path, deed.body);
        const details = { "auth.locked": { factor: "second" } };
        return { deed, trail: telling(details, failed(user, "auth.locked", "auth.mfa_failed")) };
      },
    },
    Logout: {
      always: async () => {
        const { user, accessToken } = await account();
        return { deed: post("/auth/logout", undefined, accessToken), trail: own(user, "auth.logout") };
      },
    },
    Refresh: {
      "the present token": async () => {
        const { refreshToken } = await account();
        return { deed: { ...post("/auth/refresh"), cookie: `refreshToken=${refreshToken}` }, trail: nothing };
      },
      "a token of the past": async () => {
        const { user, browser, refreshToken } = await account();
        const { body } = await browser.post("/auth/refresh");
        await browser.get("/user/profile", body.accessToken);
        const deed = { ...post("/auth/refresh"), cookie: `refreshToken=${refreshToken}` };
        const details = { "auth.refresh_reused": { sessionId: decodeJwt(refreshToken).sid } };
        return { deed, trail: telling(details, failed(user, "auth.refresh_reused")) };
      },
    },
    VerifyEmail: {
      "a new account": async () => {
        const user = await app.addUser();
        const { token } = await app.mail.emailTo(user.email);
        return { deed: post("/auth/verify-email", { token }), trail: own(user, "auth.email_verified") };
      },
      "a new address": async () => {
        const { user, browser, accessToken } = await account();
        const newEmail = `${randomUUID()}@example.com`;
        await browser.post("/user/change-email", { newEmail, password: user.password }, accessToken);
        const { token } = await app.mail.emailTo(newEmail);
        return { deed: post("/auth/verify-email", { token }), trail: own(user, "user.email_changed") };
      },
    },
    ResendVerification: {
      always: async () => {
        const user = await app.addUser();
        return { deed: post("/auth/resend-verification", { email: user.email }), trail: nothing };
      },
    },
    ForgotPassword: {
      always: async () => {
        const user = await app.addUser();
        return {
          deed: post("/auth/forgot-password", { email: user.email }),
          trail: { events: ["auth.password_reset_requested"], user: user.id },
        };
      },
    },
    ResetPassword: {
      always: () =>
        mailed(
          (token) => post("/auth/reset-password", { token, password: "Other-horse-1" }),
          ({ email }) => app.httpClient().post("/auth/forgot-password", { email }),
          /Reset/,
          "auth.password_reset",
        ),
    },
    SetupTotp: {
      always: async () => {
        const { user, accessToken } = await account();
        return { deed: post("/auth/setup-totp", undefined, accessToken), trail: own(user, "auth.mfa_setup") };
      },
    },
    DisableTotp: {
      always: async () => {
        const { user, accessToken } = await setUpFactor(app);
        const deed = post("/auth/disable-totp", { password: user.password }, accessToken);
        return { deed, trail: own(user, "auth.mfa_disabled") };
      },
    },
    CreateBackupCodes: {
      always: async () => {
        const { user, accessToken, authenticator } = await setUpFactor(app);
        const body = { password: user.password, code: await authenticator.code() };
        const trail = telling({ "auth.mfa_setup": { renewed: "backup-codes" } }, own(user, "auth.mfa_setup"));
        return { deed: post("/auth/backup-codes", body, accessToken), trail };
      },
    },
  };
}
