import type { TestUser } from "./accounts.ts";
import type { TestApp } from "./app.ts";
import { mfaTokenFor, setUpFactor } from "./authenticator.ts";

export const WRONG_CODE = { code: "000000" };

/** Completes a sign-in by a code or a backup code. */
export const verifyMfa = (app: TestApp, tempToken: string, factor: object) =>
  app.httpClient().post("/auth/verify-mfa", { tempToken, ...factor });

/** Signs in by password and a code or a backup code. */
export const signInBy = async (app: TestApp, user: TestUser, factor: object) =>
  verifyMfa(app, await mfaTokenFor(app, user), factor);

/** Sets up a second factor and confirms it by a first code. Its next code is valid. */
export async function setUpConfirmedFactor(app: TestApp, given?: TestUser) {
  const account = await setUpFactor(app, given);
  const { status } = await signInBy(app, account.user, { code: await account.authenticator.code() });
  if (status !== 200) throw new Error(`verify-mfa answered ${status}`);
  app.clock.advance("30s");
  return account;
}
