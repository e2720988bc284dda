import { generate } from "otplib";
import type { TestUser } from "./accounts.ts";
import type { TestApp } from "./app.ts";

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

/** Sets up a second factor for a user. Later logins need a code. */
export async function setUpFactor(app: TestApp, given?: TestUser) {
  const account = await app.signIn(given);
  const { status, body } = await account.browser.post("/auth/setup-totp", undefined, account.accessToken);
  if (status !== 200) throw new Error(`setup-totp answered ${status} ${JSON.stringify(body)}`);
  return { ...account, authenticator: authenticatorOf(app, body) };
}

/** An authenticator with a secret. */
export function authenticatorOf(app: Pick<TestApp, "clock">, setup: Omit<Authenticator, "code">): Authenticator {
  const code = (steps = 0) =>
    generate({ secret: setup.secret, epoch: Math.floor((app.clock.now().getTime() + steps * STEP_MS) / 1000) });
  return { ...setup, code };
}

/** Signs in by password. @returns the MFA token */
export async function mfaTokenFor(app: TestApp, user: TestUser): Promise<string> {
  const { status, body } = await app.httpClient().post("/auth/login", user.credentials);
  if (status !== 200 || !body.requiresMfa) throw new Error(`login answered ${status} ${JSON.stringify(body)}`);
  return body.tempToken;
}
