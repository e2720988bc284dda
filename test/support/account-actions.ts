// What a test does with an account: second factor, lock, reset, role, audit events.

import { generate } from "otplib";
import {
  type createAccounts,
  NEW_PASSWORD,
  PASSWORD,
  type SignedIn,
  type TestUser,
  WRONG_PASSWORD,
} from "./accounts.ts";
import type { MovableClock } from "./clock.ts";
import type { HttpClient } from "./http/client.ts";
import type { Mailbox } from "./mail/mailbox.ts";
import { until } from "./until.ts";

type App = ReturnType<typeof createAccounts> & {
  clock: MovableClock;
  mail: Mailbox;
  httpClient: (address?: string) => HttpClient;
  sql: <T>(text: string, values?: unknown[]) => Promise<T[]>;
};

/** A step of TOTP, in ms. */
export const STEP_MS = 30_000;

/** A user's authenticator and backup codes. */
export type Authenticator = {
  secret: string;
  qrCode: string;
  backupCodes: string[];
  /** The code that it shows after a number of steps. */
  code(steps?: number): Promise<string>;
};

/** User, outcome and details of an `admin.denied` event. */
type Denial = { user_id: string | null; outcome: string; [detail: string]: unknown };

/** What tests do with accounts, over REST. Each request is from a new address. */
export function createActions(app: App) {
  const login = (email: string, password: string = PASSWORD) =>
    app.httpClient().post("/auth/login", { email, password });

  /** Signs in with a wrong password. */
  const guess = (email: string, from = app.httpClient()) =>
    from.post("/auth/login", { email, password: WRONG_PASSWORD });

  /**
   * Requests a reset of the password.
   * @returns the mailed token
   */
  async function resetTokenFor(email: string): Promise<string> {
    const { status, body } = await app.httpClient().post("/auth/forgot-password", { email });
    if (status !== 200)
      throw new Error(`forgot-password answered ${status} ${JSON.stringify(body)}`);
    return (await app.mail.emailTo(email, /Reset/)).token as string;
  }

  function authenticatorOf(setup: Omit<Authenticator, "code">): Authenticator {
    const epoch = (steps: number) =>
      Math.floor((app.clock.now().getTime() + steps * STEP_MS) / 1000);
    return {
      ...setup,
      code: (steps = 0) => generate({ secret: setup.secret, epoch: epoch(steps) }),
    };
  }

  /** Sets up a second factor for a user. Later logins need a code. */
  async function setUpFactor(given?: TestUser) {
    const account = await app.signIn(given);
    const { status, body } = await account.post("/auth/setup-totp");
    if (status !== 200) throw new Error(`setup-totp answered ${status} ${JSON.stringify(body)}`);
    return { ...account, authenticator: authenticatorOf(body) };
  }

  /**
   * Signs in by password.
   * @returns the MFA token
   */
  async function mfaTokenFor(user: TestUser): Promise<string> {
    const { status, body } = await app.httpClient().post("/auth/login", user.credentials);
    if (status !== 200 || !body.requiresMfa)
      throw new Error(`login answered ${status} ${JSON.stringify(body)}`);
    return body.tempToken;
  }

  /** Completes a sign-in with a code or a backup code. */
  const verifyMfa = (tempToken: string, factor: object) =>
    app.httpClient().post("/auth/verify-mfa", { tempToken, ...factor });

  /** Signs in with a password and a code or a backup code. */
  const signInBy = async (user: TestUser, factor: object) =>
    verifyMfa(await mfaTokenFor(user), factor);

  return {
    login,
    guess,
    resetTokenFor,
    authenticatorOf,
    setUpFactor,
    mfaTokenFor,
    verifyMfa,
    signInBy,
    signInAdmin: async (given?: TestUser) =>
      app.signIn(given ?? (await app.addUser({ role: "admin" }))),
    /** Changes a user's role as an administrator, who confirms it by password. */
    changeRole: ({ user: admin, put }: SignedIn, userId: string, role: "user" | "admin") =>
      put(`/admin/users/${userId}`, { role, password: admin.password }),
    /** Locks an account with five wrong passwords. */
    async lock(email: string): Promise<void> {
      for (let i = 0; i < 5; i++) await guess(email);
    },
    verifyEmail: (token: unknown) => app.httpClient().post("/auth/verify-email", { token }),
    resetPassword: (token: unknown, password = NEW_PASSWORD) =>
      app.httpClient().post("/auth/reset-password", { token, password }),
    /** Sets up a second factor and confirms it with a first code. Its next code is valid. */
    async setUpConfirmedFactor(given?: TestUser) {
      const account = await setUpFactor(given);
      const { status } = await signInBy(account.user, { code: await account.authenticator.code() });
      if (status !== 200) throw new Error(`verify-mfa answered ${status}`);
      app.clock.advance("30s");
      return account;
    },
    /** Refreshes with a cookie. */
    refresh: (token: string | undefined, headers: Record<string, string> = {}) =>
      app.httpClient().send("POST", "/auth/refresh", undefined, {
        ...(token !== undefined && { cookie: `refreshToken=${token}` }),
        ...headers,
      }),
    /** The status of GET /user/profile: 200 while the session of the token is open. */
    profileStatus: async (token: string) =>
      (await app.httpClient().get("/user/profile", token)).status,
    /**
     * Marks the only e-mail to a user as failed once it is sent.
     * @returns its id
     */
    async failEmailOf({ id }: Pick<TestUser, "id">): Promise<string> {
      const fail = `update emails set status = 'failed', next_attempt_at = null, last_error = '550 no such mailbox'
        where user_id = ? and status = 'sent' returning id`;
      return until(
        "the e-mail to be sent",
        async () => (await app.sql<{ id: string }>(fail, [id]))[0]?.id,
      );
    },
    /** Audit events about a user, newest first. */
    auditOf: (userId: string, event: string) =>
      app.sql<{
        actor_id: string | null;
        outcome: string;
        details: Record<string, unknown>;
        ip: string;
      }>(
        "select actor_id, outcome, details, ip from audit_events where user_id = ? and event = ? order by id desc",
        [userId, event],
      ),
    /** The `admin.denied` events of an actor, oldest first. */
    async denialsOf(actorId: string): Promise<Denial[]> {
      const rows = await app.sql<Denial & { details: object }>(
        "select user_id, outcome, details from audit_events where event = 'admin.denied' and actor_id = ? order by id",
        [actorId],
      );
      return rows.map(({ user_id, outcome, details }) => ({ user_id, outcome, ...details }));
    },
  };
}
