import { randomInt } from "node:crypto";
import { expect, test } from "vitest";
import { NEW_PASSWORD, type SignedIn } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { type Authenticator, createAuthenticator } from "../../support/authenticator.ts";
import { passkeyActions } from "../../support/passkeys.ts";

const app = await testApp();
const passkeys = passkeyActions(app);
/** Random sequences, and requests of each. */
const [ROUNDS, STEPS] = [6, 12];

/** What a random request does to the ways in of an account, some of them at once. */
function actionsOf(account: SignedIn, authenticators: Authenticator[]) {
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
    () => account.put("/user/second-factor", { required: true }),
    () => account.put("/user/second-factor", { required: false }),
  ];
}

test("Ways in: no sequence of additions and removals leaves an account without one", async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const account = await app.signIn();
    const authenticators: Authenticator[] = [];
    const actions = actionsOf(account, authenticators);
    const taken: number[] = [];
    for (let step = 0; step < STEPS; step++) {
      const i = randomInt(actions.length);
      taken.push(i);
      await actions[i]?.();
      const { body } = await account.get("/user/sign-in-methods");
      expect(Number(body.hasPassword) + body.passkeys, `after ${taken}`).toBeGreaterThan(0);
      if (body.secondFactorRequired) expect(body.passkeys, `after ${taken}`).toBeGreaterThan(0);
    }
    const answers = await Promise.all(authenticators.map((each) => passkeys.signIn(each)));
    const byPasskey = answers.filter(({ status }) => status === 200).length;
    const { body } = await account.get("/user/sign-in-methods");
    expect(byPasskey).toBe(body.passkeys);
  }
});
