import type { SignedIn } from "./accounts.ts";
import type { TestApp } from "./app.ts";
import { type Authenticator, createAuthenticator, type Faults } from "./authenticator.ts";

type Account = Pick<SignedIn, "post" | "put">;

/** What tests do with passkeys, over REST. Each public request is from a new address. */
export function passkeyActions(app: TestApp) {
  const optionsFor = async ({ post }: Account, purpose: "register" | "confirm") => {
    const { status, body } = await post("/user/passkeys/options", { purpose });
    if (status !== 200) throw new Error(`options answered ${status} ${JSON.stringify(body)}`);
    return body.options;
  };
  const signInOptions = async (tempToken?: string) => {
    const { status, body } = await app.httpClient().post("/auth/passkey-options", { tempToken });
    if (status !== 200) throw new Error(`options answered ${status} ${JSON.stringify(body)}`);
    return body.options;
  };
  const verify = (credential: object, tempToken?: string, from = app.httpClient()) =>
    from.post("/auth/verify-passkey", { credential, tempToken });
  return {
    optionsFor,
    signInOptions,
    verify,
    /** Adds a passkey to an account. */
    register: async (
      account: Account,
      authenticator = createAuthenticator(),
      faults: Faults = {},
    ) => {
      const options = await optionsFor(account, "register");
      return account.post("/user/passkeys", { credential: authenticator.create(options, faults) });
    },
    /** A new account with a passkey. */
    async addUser(authenticator = createAuthenticator()) {
      const account = await app.signIn();
      const { status, body } = await this.register(account, authenticator);
      if (status !== 201) throw new Error(`passkeys answered ${status} ${JSON.stringify(body)}`);
      return { ...account, authenticator, passkey: body.passkey };
    },
    /** Signs in with a passkey. */
    signIn: async (authenticator: Authenticator, faults: Faults = {}) =>
      verify(authenticator.get(await signInOptions(), faults)),
  };
}
