import { isSignUpOpen } from "../accounts/sign-up.ts";
import type { Call } from "../call.ts";

/**
 * The ways to sign in that this service offers in addition to the password, and whether anybody may
 * register.
 */
export function listSignInMethods({ config, external }: Pick<Call, "config" | "external">) {
  const providers = [...external.providers.values()].map(({ id, name }) => ({ id, name }));
  const passkey = config.relyingParty !== undefined;
  return {
    passkey,
    emailCode: config.emailSignIn === "code",
    signUp: isSignUpOpen(config),
    providers,
  };
}
