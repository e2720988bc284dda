import { randomInt } from "node:crypto";
import { expect, test } from "vitest";
import type { SimulatedAccount } from "../../../scripts/simulators/sign-in-provider.ts";
import { NEW_PASSWORD, type SignedIn } from "../../support/accounts.ts";
import { type Authenticator, createAuthenticator } from "../../support/authenticator.ts";
import { googleAccount, startExternalApp } from "../../support/external.ts";
import { passkeyActions } from "../../support/passkeys.ts";

const env = { EMAIL_SIGN_IN: "code", RATE_LIMITS: "off" };
const { app, prove, signInBy } = await startExternalApp(env);
const passkeys = passkeyActions(app);
/** Random sequences, and requests of each. */
const [ROUNDS, STEPS] = [6, 12];

/** What a random request does to the ways in of an account, some of them at once. */
function actionsOf(
  account: SignedIn,
  authenticators: Authenticator[],
  providerAccounts: SimulatedAccount[],
) {
  const connect = async () => {
    const provided = googleAccount();
    const identityToken = await prove(account.browser, provided);
    const answer = await account.post("/auth/connect-identity", { identityToken });
    if (answer.status === 201) providerAccounts.push(provided);
    return answer;
  };
  const disconnect = async (last: boolean) => {
    const { body } = await account.get("/user/identities");
    const { id } = (last ? body.at(-1) : body[0]) ?? { id: account.user.id };
    return account.delete(`/user/identities/${id}`);
  };
  const removeOne = async (last: boolean) => {
    const { body } = await account.get("/user/passkeys");
    const { id } = (last ? body.at(-1) : body[0]) ?? { id: account.user.id };
    return account.delete(`/user/passkeys/${id}`);
  };
  return [
    () => account.put("/user/password", { newPassword: NEW_PASSWORD }),
    () => account.delete("/user/password"),
    async () => {
      const authenticator = createAuthenticator();
      const answer = await passkeys.register(account, authenticator);
      if (answer.status === 201) authenticators.push(authenticator);
      return answer;
    },
    () => removeOne(true),
    () => Promise.all([removeOne(true), account.delete("/user/password")]),
    () => Promise.all([removeOne(true), removeOne(false)]),
    connect,
    () => disconnect(true),
    () => Promise.all([disconnect(true), account.delete("/user/password")]),
    () => Promise.all([disconnect(true), disconnect(false), removeOne(true)]),
    () => account.put("/user/second-factor", { required: true }),
    () => account.put("/user/second-factor", { required: false }),
  ];
}

/** The number of sign-ins that reach an account, or its second step. */
const reached = (
  answers: { status: number; body: { user?: { id: string }; requiresMfa?: boolean } }[],
  id: string,
) =>
  answers.filter(({ status, body }) => status === 200 && (body.user?.id === id || body.requiresMfa))
    .length;

test.for([
  { address: "verified, which codes by e-mail reach", isVerified: true },
  { address: "not verified", isVerified: false },
])(
  "Ways in: no sequence of additions and removals leaves an account without one (address $address)",
  async ({ isVerified }) => {
    for (let round = 0; round < ROUNDS; round++) {
      const account = await app.signIn(isVerified ? await app.addVerifiedUser() : undefined);
      const [authenticators, providerAccounts]: [Authenticator[], SimulatedAccount[]] = [[], []];
      const actions = actionsOf(account, authenticators, providerAccounts);
      const taken: number[] = [];
      for (let step = 0; step < STEPS; step++) {
        const i = randomInt(actions.length);
        taken.push(i);
        await actions[i]?.();
        const { body } = await account.get("/user/sign-in-methods");
        const { hasPassword, passkeys, identities, emailCode } = body;
        expect(emailCode).toBe(isVerified);
        const ways = Number(hasPassword) + passkeys + identities + Number(emailCode);
        expect(ways, `after ${taken}`).toBeGreaterThan(0);
        if (body.secondFactorRequired) expect(passkeys, `after ${taken}`).toBeGreaterThan(0);
      }
      const { body } = await account.get("/user/sign-in-methods");
      const byPasskey = await Promise.all(authenticators.map((each) => passkeys.signIn(each)));
      const byProvider = await Promise.all(providerAccounts.map((each) => signInBy(each)));
      expect(reached(byPasskey, account.user.id)).toBe(body.passkeys);
      expect(reached(byProvider, account.user.id)).toBe(body.identities);
    }
  },
);
