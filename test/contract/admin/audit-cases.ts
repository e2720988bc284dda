import { randomUUID } from "node:crypto";
import { decodeJwt } from "jose";
import type { Authenticator } from "../../support/account-actions.ts";
import {
  freshEmail,
  NEW_PASSWORD,
  newAccount,
  PASSWORD,
  type SignedIn,
  type TestUser,
  WRONG_CODE,
  WRONG_PASSWORD,
} from "../../support/accounts.ts";
import { createKey, createService } from "../../support/api-keys.ts";
import type { TestApp } from "../../support/app.ts";
import { createAuthenticator } from "../../support/authenticator.ts";
import { googleAccount, type startExternalApp } from "../../support/external.ts";
import type { HttpClient } from "../../support/http/client.ts";
import { TEXT } from "../../support/http/responses.ts";
import { passkeyActions } from "../../support/passkeys.ts";

type Providers = Awaited<ReturnType<typeof startExternalApp>>;

/** A request, ready to be sent, and the events that it records. */
export type AuditCase = {
  /** The parameter of the path. */
  id?: string;
  body?: unknown;
  token?: string | undefined;
  cookie?: string;
  /** Details by event, in the order of the names. */
  events: Record<string, object>;
  /** The user of every event; null for none. */
  user?: string | null;
  /** The actor of every event; null for an unknown caller. */
  actor?: string | null;
  /** A table that changes even if the events can't be stored. */
  spends?: string;
};
type Events = AuditCase["events"];
/** The part of a case that depends on an account. */
type Prepared = Partial<AuditCase> | Promise<Partial<AuditCase>>;
/** A case of a new account. */
type Case<Account> = { events: Events; prepare?: (account: Account) => Prepared };
/** A sign-in with a second factor. */
type FactorCase = {
  events: Events;
  /** What proves the factor. */
  factor: (authenticator: Authenticator) => object | Promise<object>;
  /** Number of attempts before the recorded one. */
  guesses?: number;
};
/** A request of an administrator. */
type AdminCase = {
  events: Events;
  body?: object;
  /** The parameter of the path; by default the id of the user. */
  idOf?: (user: TestUser) => Promise<string>;
};

/** A budget of a user. */
const BUDGET = { scope: "user", unit: "tokens", period: "day" };
/** A webhook, for events that no case causes. */
const WEBHOOK = {
  url: "https://hooks.example.com/?token=private",
  events: ["auth.refresh_reused"],
};
const KEY_DETAILS = { id: TEXT, name: "CI", hint: TEXT };

/** A browser that no other case uses. */
const FIREFOX = {
  "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
};

const IDENTITY = { identityId: TEXT, provider: "google" };

/** What is recorded if the counter of a passkey has decreased. */
const COUNTER = { passkeyId: TEXT, from: 9, to: 5 };

/**
 * Cases by the name of the method, with the circumstances where they matter. The product sends
 * codes by e-mail.
 */
export function auditCases(
  app: TestApp,
  { answerOf, prove }: Pick<Providers, "answerOf" | "prove">,
): Record<string, () => Promise<AuditCase>> {
  /** A budget of a new account, and what is recorded about it. */
  const withBudget = async () => {
    const [admin, { user }] = [await app.signInAdmin(), await app.signIn()];
    const form = { ...BUDGET, subject: user.id, limit: "900000" };
    const { body } = await admin.put("/admin/budgets", form);
    const id: string = body.budget.id;
    const [token, actor] = [admin.accessToken, admin.user.id];
    return { id, token, actor, user: user.id, details: { ...form, id } };
  };
  /**
   * A webhook for events that no case causes, and a request about it by the administrator who
   * created it.
   */
  const withWebhook =
    (details: object, body: object = {}, event: "changed" | "replayed" = "changed") =>
    async (): Promise<AuditCase & { id: string }> => {
      await app.sql("delete from webhooks"); // there may be 20
      const { post, accessToken: token, user } = await app.signInAdmin();
      const { id } = (await post("/admin/webhooks", WEBHOOK)).body.webhook;
      const named = event === "changed" ? { id, host: "hooks.example.com" } : { id };
      const events = { [`admin.webhook_${event}`]: { ...named, ...details } };
      return { id, body, events, token, user: null, actor: user.id };
    };
  /** A request of a new account that has signed in. */
  const own =
    ({ events, prepare = () => ({}) }: Case<SignedIn>) =>
    async (): Promise<AuditCase> => {
      const account = await app.signIn();
      const [token, user] = [account.accessToken, account.user.id];
      return { events, token, user, actor: user, ...(await prepare(account)) };
    };
  /** A request without a token about a new account, which becomes the actor unless it fails. */
  const open =
    ({ events, prepare = () => ({}) }: Case<TestUser>) =>
    async (): Promise<AuditCase> => {
      const user = await app.addUser();
      return { events, user: user.id, actor: user.id, ...(await prepare(user)) };
    };
  /** A request with an MFA token. */
  const verifyMfa = ({ events, factor, guesses = 0 }: FactorCase) =>
    open({
      events,
      prepare: async (user) => {
        const proof = await factor((await app.setUpFactor(user)).authenticator);
        const tempToken = await app.mfaTokenFor(user);
        for (let i = 0; i < guesses; i++) await app.verifyMfa(tempToken, proof);
        return {
          body: { tempToken, ...proof },
          ...("auth.mfa_failed" in events && { actor: null }),
        };
      },
    });
  /** A request of an administrator about a new user. */
  const admin =
    ({ events, body, idOf = async ({ id }) => id }: AdminCase) =>
    async (): Promise<AuditCase> => {
      const [{ user: actor, accessToken: token }, { user }] = [
        await app.signInAdmin(),
        await app.signIn(),
      ];
      return { id: await idOf(user), events, body, token, user: user.id, actor: actor.id };
    };
  const passkeys = passkeyActions(app);
  const deviceOf = ({ cookies }: HttpClient) => `device=${cookies.get("device")}`;
  /** What a provider returns to a browser. It is used once, whatever follows. */
  const answerIn = async (browser: HttpClient) => ({
    body: await answerOf(browser, googleAccount()),
    cookie: deviceOf(browser),
    spends: "completed_ceremonies",
  });
  /** Asks for a code, and reads it. */
  const codeFor = async ({ email }: TestUser) => {
    await app.httpClient().post("/auth/email-code", { email });
    const { text = "" } = await app.mail.emailTo(email, /code/);
    return { email, code: /code is (\d{6})/.exec(text)?.[1] };
  };
  const guessOf = ({ email }: TestUser) => ({
    body: { email, password: WRONG_PASSWORD },
    actor: null,
  });

  return {
    "FinishExternal, a new account": async () => ({
      events: {
        "auth.email_verified": {},
        "auth.login": { method: "external" },
        "auth.register": {},
        "user.identity_added": { ...IDENTITY, how: "create" },
      },
      ...(await answerIn(app.httpClient())),
      actor: TEXT,
    }),
    "FinishExternal, an answer for another browser": async () => ({
      events: { "auth.external_failed": { provider: "google" } },
      ...(await answerIn(app.httpClient())),
      cookie: deviceOf((await app.signIn()).browser),
      user: null,
    }),
    ConnectIdentity: own({
      events: { "user.identity_added": { ...IDENTITY, how: "connect" } },
      prepare: async ({ browser }) => ({
        body: { identityToken: await prove(browser, googleAccount()) },
        cookie: deviceOf(browser),
      }),
    }),
    RequestEmailCode: open({
      events: { "auth.email_code_requested": {} },
      prepare: ({ email }) => ({
        body: { email },
      }),
    }),
    "VerifyEmailCode, a right code": open({
      events: { "auth.login": { method: "email-code" } },
      prepare: async () => {
        const user = await app.addVerifiedUser();
        return { body: await codeFor(user), user: user.id, actor: user.id };
      },
    }),
    "VerifyEmailCode, of an account that was never verified": open({
      events: {
        "auth.email_verified": {},
        "auth.login": { method: "email-code" },
        "user.taken_back": {},
      },
      prepare: async (user) => ({ body: await codeFor(user) }),
    }),
    "VerifyEmailCode, a wrong code": open({
      events: { "auth.login_failed": { method: "email-code" } },
      prepare: ({ email }) => ({ body: { email, code: "000000" }, actor: null }),
    }),
    "Register, a new account": async () => ({
      events: { "auth.register": {} },
      body: newAccount(),
      actor: TEXT,
    }),
    "Login, a right password": open({
      events: { "auth.login": { method: "password" } },
      prepare: (user) => ({
        body: user.credentials,
      }),
    }),
    "Login, a wrong password": open({ events: { "auth.login_failed": {} }, prepare: guessOf }),
    "Login, the fifth wrong password": open({
      events: { "auth.locked": {}, "auth.login_failed": {} },
      prepare: async (user) => {
        for (let i = 0; i < 4; i++) await app.guess(user.email);
        return guessOf(user);
      },
    }),
    "Login, an account about to be deleted": open({
      events: { "auth.login": { method: "password" }, "user.restored": {} },
      prepare: async (user) => {
        await (await app.signIn(user)).post("/user/delete-account", {});
        return { body: user.credentials };
      },
    }),
    "VerifyMfa, a code": verifyMfa({
      events: { "auth.login": { method: "password" }, "auth.mfa_verified": { method: "totp" } },
      factor: async (factor) => ({
        code: await factor.code(),
      }),
    }),
    "VerifyMfa, a backup code": verifyMfa({
      events: {
        "auth.backup_code_used": { left: 9 },
        "auth.login": { method: "password" },
        "auth.mfa_verified": { method: "backup-code" },
      },
      factor: ({ backupCodes }) => ({ backupCode: backupCodes[0] }),
    }),
    "VerifyMfa, a wrong code": verifyMfa({
      events: { "auth.mfa_failed": {} },
      factor: () => WRONG_CODE,
    }),
    "VerifyMfa, the fifth wrong code": verifyMfa({
      events: { "auth.locked": { factor: "second" }, "auth.mfa_failed": {} },
      factor: () => WRONG_CODE,
      guesses: 4,
    }),
    Logout: own({ events: { "auth.logout": {} } }),
    "Refresh, the present token": own({
      events: {},
      prepare: ({ refreshToken }) => ({
        token: undefined,
        cookie: `refreshToken=${refreshToken}`,
      }),
    }),
    "Refresh, a token of the past": own({
      events: {},
      prepare: async ({ browser, refreshToken }) => {
        const { body } = await browser.post("/auth/refresh");
        await browser.get("/user/profile", body.accessToken);
        const events = { "auth.refresh_reused": { sessionId: decodeJwt(refreshToken).sid } };
        return { token: undefined, cookie: `refreshToken=${refreshToken}`, events, actor: null };
      },
    }),
    "VerifyEmail, a new account": open({
      events: { "auth.email_verified": {} },
      prepare: async ({ email }) => ({
        body: { token: (await app.mail.emailTo(email)).token },
      }),
    }),
    "VerifyEmail, a new address": open({
      events: { "user.email_changed": {} },
      prepare: async (user) => {
        const newEmail = freshEmail();
        await (await app.signIn(user)).post("/user/change-email", { newEmail, password: PASSWORD });
        return { body: { token: (await app.mail.emailTo(newEmail)).token } };
      },
    }),
    "Disown, a sign-in": open({
      events: { "auth.disowned": {} },
      prepare: async () => {
        const user = await app.addVerifiedUser();
        await app.signIn(user);
        await app.httpClient("10.255.1.1").send("POST", "/auth/login", user.credentials, FIREFOX);
        const { token } = await app.mail.emailTo(user.email, /New sign-in/);
        return { body: { token, email: user.email }, user: user.id, actor: user.id };
      },
    }),
    "Disown, after a change of the address": open({
      events: { "auth.disowned": {}, "user.email_changed": {} },
      prepare: async () => {
        const user = await app.addVerifiedUser();
        const { email } = user;
        await app.signIn(user);
        const strange = await app.signIn(user);
        const { token } = await app.mail.emailTo(email, /New sign-in/);
        const newEmail = freshEmail();
        await strange.post("/user/change-email", { newEmail, password: PASSWORD });
        const change = await app.mail.emailTo(newEmail, /Verify your new/);
        await app.verifyEmail(change.token);
        return { body: { token, email }, user: user.id, actor: user.id };
      },
    }),
    "Disown, a registration": open({
      events: { "auth.disowned": {}, "user.erased": {} },
      prepare: async ({ email }) => ({
        body: { token: (await app.mail.emailTo(email)).token, email },
      }),
    }),
    ResendVerification: open({ events: {}, prepare: ({ email }) => ({ body: { email } }) }),
    ForgotPassword: open({
      events: { "auth.password_reset_requested": {} },
      prepare: ({ email }) => ({
        body: { email },
      }),
    }),
    ResetPassword: open({
      events: { "auth.password_reset": {} },
      prepare: async () => {
        const { id: user, email } = await app.addVerifiedUser();
        return {
          body: { token: await app.resetTokenFor(email), password: NEW_PASSWORD },
          user,
          actor: user,
        };
      },
    }),
    SetupTotp: own({ events: { "auth.mfa_setup": {} } }),
    DisableTotp: own({
      events: { "auth.mfa_disabled": {} },
      prepare: async ({ user }) => ({
        token: (await app.setUpFactor(user)).accessToken,
        body: { password: PASSWORD },
      }),
    }),
    CreateBackupCodes: own({
      events: { "auth.mfa_setup": { renewed: "backup-codes" } },
      prepare: async ({ user }) => {
        const { accessToken: token, authenticator } = await app.setUpFactor(user);
        return { token, body: { password: PASSWORD, code: await authenticator.code() } };
      },
    }),
    Confirm: own({
      events: { "auth.confirmed": { method: "password" } },
      prepare: () => ({
        body: { password: PASSWORD },
      }),
    }),
    SetPassword: own({
      events: { "user.password_set": {} },
      prepare: async ({ user }) => {
        await app.sql("update users set has_password = false where id = ?", [user.id]);
        return { body: { newPassword: NEW_PASSWORD } };
      },
    }),
    RemovePassword: own({
      events: { "user.password_removed": {} },
      prepare: async (account) => {
        await passkeys.register(account);
        return {};
      },
    }),
    "VerifyPasskey, a passkey alone": own({
      events: { "auth.login": { method: "passkey" } },
      prepare: async () => {
        const { user, authenticator } = await passkeys.addUser();
        const credential = authenticator.get(await passkeys.signInOptions());
        return { token: undefined, body: { credential }, user: user.id, actor: user.id };
      },
    }),
    "VerifyPasskey, a counter that fell": own({
      events: { "auth.login": { method: "passkey" }, "auth.passkey_counter_fell": COUNTER },
      prepare: async () => {
        const { user, authenticator } = await passkeys.addUser();
        await passkeys.signIn(authenticator, { counter: 9 });
        const credential = authenticator.get(await passkeys.signInOptions(), { counter: 5 });
        return { token: undefined, body: { credential }, user: user.id, actor: user.id };
      },
    }),
    CreatePasskey: own({
      events: { "user.passkey_added": { passkeyId: TEXT } },
      prepare: async (account) => {
        const options = await passkeys.optionsFor(account, "register");
        return { body: { credential: createAuthenticator().create(options) } };
      },
    }),
    RenamePasskey: own({
      events: {},
      prepare: async (account) => {
        const { body } = await passkeys.register(account);
        return { id: body.passkey.id, body: { name: "Laptop" } };
      },
    }),
    DeletePasskey: own({
      events: { "user.passkey_removed": { passkeyId: TEXT } },
      prepare: async (account) => {
        const { body } = await passkeys.register(account);
        return { id: body.passkey.id };
      },
    }),
    DeleteIdentity: own({
      events: { "user.identity_removed": { identityId: TEXT, provider: "google" } },
      prepare: async ({ user }) => {
        const id = randomUUID();
        await app.sql(
          "insert into identities (id, user_id, provider, issuer, subject, created_at) values (?, ?, 'google', 'https://a.example', ?, now())",
          [id, user.id, id],
        );
        return { id };
      },
    }),
    DeleteDevice: own({
      events: { "user.device_forgotten": { deviceId: TEXT } },
      prepare: async ({ get }) => ({
        id: (await get("/user/devices")).body[0].id,
      }),
    }),
    RequireSecondFactor: own({
      events: { "user.second_factor_changed": { required: true } },
      prepare: async ({ user }) => {
        const { authenticator } = await app.setUpConfirmedFactor(user);
        const { body } = await app.signInBy(user, { code: await authenticator.code() });
        return { token: body.accessToken, body: { required: true } };
      },
    }),
    UpdateProfile: own({
      events: { "user.profile_updated": {} },
      prepare: () => ({ body: { name: "Bea" } }),
    }),
    ChangePassword: own({
      events: { "user.password_changed": {} },
      prepare: () => ({
        body: { currentPassword: PASSWORD, newPassword: NEW_PASSWORD },
      }),
    }),
    "ChangePassword, a wrong password": own({
      events: { "auth.login_failed": {} },
      prepare: () => ({
        body: { currentPassword: WRONG_PASSWORD, newPassword: NEW_PASSWORD },
      }),
    }),
    ChangeEmail: own({
      events: {},
      prepare: () => ({ body: { newEmail: freshEmail(), password: PASSWORD } }),
    }),
    ExportData: own({ events: { "user.exported": { page: 1 } } }),
    RevokeSession: own({
      events: {},
      prepare: async (account) => {
        const [{ id }] = await account.sessions();
        return { id, events: { "user.session_revoked": { sessionId: id } } };
      },
    }),
    RevokeOtherSessions: own({
      events: { "user.session_revoked": { others: 1 } },
      prepare: async ({ user }) => {
        await app.signIn(user);
        return {};
      },
    }),
    CreateApiKey: own({
      events: { "user.api_key_created": KEY_DETAILS },
      prepare: () => ({ body: { name: "CI" } }),
    }),
    RevokeApiKey: own({
      events: { "user.api_key_revoked": KEY_DETAILS },
      prepare: async (account) => ({
        id: (await createKey(account)).apiKey.id,
      }),
    }),
    DeleteAccount: own({
      events: { "user.deletion_requested": {} },
      prepare: () => ({ body: {} }),
    }),
    InviteUser: async () => ({
      events: { "admin.user_invited": { role: "user" } },
      body: { email: freshEmail(), name: "Bea" },
      token: (await app.signInAdmin()).accessToken,
      actor: TEXT,
    }),
    ResetAccess: admin({
      events: { "admin.access_reset": {}, "auth.password_reset_requested": {} },
    }),
    UpdateUser: admin({
      events: {
        "admin.user_updated": {
          fields: ["name", "role"],
          role: "admin",
          changes: { role: { from: "user", to: "admin" } },
        },
      },
      body: { name: "Bea", role: "admin", password: PASSWORD },
    }),
    "UpdateUser, a suspension": admin({
      events: { "admin.user_suspended": {} },
      body: { suspended: true },
    }),
    "UpdateUser, a reinstatement": admin({
      events: { "admin.user_reinstated": {} },
      body: { suspended: false },
      idOf: async ({ id }) => {
        await app.sql("update users set suspended_at = now() where id = ?", [id]);
        return id;
      },
    }),
    "UpdateUser, a suspension and a name": admin({
      events: { "admin.user_suspended": {}, "admin.user_updated": { fields: ["name"] } },
      body: { suspended: true, name: "Bea" },
    }),
    "UpdateUser, metadata": admin({
      events: { "admin.user_updated": { fields: ["metadata"] } },
      body: { metadata: { plan: "team" } },
    }),
    DeleteUser: admin({ events: { "admin.user_deleted": {}, "user.erased": {} } }),
    RevokeUserSessions: admin({ events: { "admin.sessions_revoked": { sessions: 1 } } }),
    RetryEmail: admin({
      events: { "admin.email_retried": { emailId: TEXT } },
      idOf: app.failEmailOf,
    }),
    Impersonate: admin({
      events: { "admin.impersonated": { sessionId: TEXT, reason: "Ticket 7" } },
      body: { reason: "Ticket 7" },
    }),
    UpdateApiKey: async () => {
      const account = await app.signIn();
      const { apiKey } = await createKey(account);
      const { user: actor, accessToken: token } = await app.signInAdmin();
      const details = { ...KEY_DETAILS, fields: ["revoked"] };
      const events = { "admin.api_key_updated": details };
      const body = { revoked: true };
      return { id: apiKey.id, body, events, token, user: account.user.id, actor: actor.id };
    },
    CreateServiceAccount: async () => {
      const { user: actor, accessToken: token } = await app.signInAdmin();
      const events = { "admin.service_account_created": { name: "Report" } };
      return { body: { name: "Report" }, events, token, actor: actor.id };
    },
    CreateServiceAccountKey: async () => {
      const { admin, id } = await createService(app);
      const events = { "user.api_key_created": KEY_DETAILS };
      const [token, actor] = [admin.accessToken, admin.user.id];
      return { id, body: { name: "CI" }, events, token, user: id, actor };
    },
    SetBudget: async () => {
      const { user: actor, accessToken: token } = await app.signInAdmin();
      const { user } = await app.signIn();
      const body = { ...BUDGET, subject: user.id, limit: "900000" };
      const details = { ...body, id: TEXT, alertPercent: 80 };
      const events = { "admin.budget_set": details };
      return { body, events, token, user: user.id, actor: actor.id };
    },
    DeleteBudget: async () => {
      const { id, token, user, actor, details } = await withBudget();
      return { id, events: { "admin.budget_deleted": details }, token, user, actor };
    },
    AdjustBudget: async () => {
      const { id, token, user, actor, details } = await withBudget();
      const body = { used: "7", reason: "Ticket 7" };
      const adjusted = { ...details, ...body, usedBefore: "0" };
      return { id, body, events: { "admin.budget_adjusted": adjusted }, token, user, actor };
    },
    CreateWebhook: async () => {
      const { id: _, ...prepared } = await withWebhook({})();
      await app.sql("delete from webhooks");
      const details = { id: TEXT, host: "hooks.example.com", change: "created" };
      const created = { "admin.webhook_changed": { ...details, events: WEBHOOK.events } };
      return { ...prepared, body: WEBHOOK, events: created };
    },
    UpdateWebhook: withWebhook(
      { change: "updated", fields: ["description"] },
      { description: "CRM" },
    ),
    "UpdateWebhook, turned off": withWebhook(
      { change: "disabled", reason: "requested" },
      { disabled: true },
    ),
    DeleteWebhook: async () => ({
      ...(await withWebhook({ change: "deleted" })()),
      body: undefined,
    }),
    RotateWebhookSecret: withWebhook({ change: "secret-rotated" }),
    TestWebhook: withWebhook({ test: true }, {}, "replayed"),
    ReplayWebhook: withWebhook(
      { from: "2020-01-01T00:00:00.000Z", to: "2020-01-02T00:00:00.000Z", queued: 0 },
      { from: "2020-01-01T00:00:00Z", to: "2020-01-02T00:00:00Z" },
      "replayed",
    ),
    RetryWebhookDelivery: async () => {
      const { id: webhookId, ...prepared } = await withWebhook({}, {}, "replayed")();
      const [id, event] = [randomUUID(), "auth.refresh_reused"];
      await app.sql(
        `insert into webhook_deliveries (id, webhook_id, event_id, event, status, queued_at, created_at)
         values (?, ?, gen_random_uuid(), ?, 'failed', now(), now())`,
        [id, webhookId, event],
      );
      const details = { id: webhookId, deliveryId: id, event };
      return { ...prepared, id, events: { "admin.webhook_replayed": details } };
    },
    "Impersonate, an administrator": admin({
      events: { "admin.denied": { reason: "CONFLICT", rpc: "Impersonate" } },
      body: {},
      idOf: async ({ id }) => {
        await app.sql("update users set role = 'admin' where id = ?", [id]);
        return id;
      },
    }),
  };
}
