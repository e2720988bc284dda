import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Call, SystemCall } from "../call.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { countIdentities } from "../store/identities.ts";
import { countPasskeys } from "../store/passkeys.ts";
import { User } from "../store/users.ts";

/** Number of ways to sign in to an account, by kind. */
export type WaysIn = {
  password: number;
  passkeys: number;
  identities: number;
  /** 1 if codes by e-mail are on and the address is verified. */
  emailCode: number;
};

type Deps = Pick<SystemCall, "em" | "config"> & Pick<Call, "external">;

/**
 * Counts the ways in of an account that work in this deployment. Identities of a provider that is
 * no longer configured do not. Lock the user first if the result must stay true.
 */
export async function countWaysIn(call: Deps, userId: string): Promise<WaysIn> {
  const { relyingParty } = call.config;
  return {
    password: await call.em.count(User, { id: userId, hasPassword: true }),
    passkeys: relyingParty ? await countPasskeys(call, userId, relyingParty.id) : 0,
    identities: await countIdentities(call, userId, [...call.external.providers.keys()]),
    emailCode:
      call.config.emailSignIn === "code"
        ? await call.em.count(User, { id: userId, emailVerifiedAt: { $ne: null } })
        : 0,
  };
}

/**
 * Checks that an account still has a way in. Call it after a removal, in the same transaction,
 * which has locked the user, so that the second of two concurrent removals sees the first.
 * @throws ServiceError LAST_SIGN_IN_METHOD
 */
export async function assertWayInRemains(call: Deps, userId: string): Promise<void> {
  const ways = await countWaysIn(call, userId);
  if (Object.values(ways).some((count) => count > 0)) return;
  throw new ServiceError(
    Reason.LAST_SIGN_IN_METHOD,
    "This is the last way to sign in to this account. Please add another one first.",
  );
}

/**
 * Checks that an account that requires a second factor at every sign-in still has one. Call it
 * after a removal, like `assertWayInRemains`.
 * @throws ServiceError LAST_SIGN_IN_METHOD
 */
export async function assertFactorRemains(call: Deps, userId: string): Promise<void> {
  const isBare = { id: userId, secondFactor: true, mfaSecret: null };
  if ((await call.em.count(User, isBare)) === 0) return;
  if ((await countWaysIn(call, userId)).passkeys > 0) return;
  throw new ServiceError(
    Reason.LAST_SIGN_IN_METHOD,
    "Your account requires a second factor at every sign-in. Please turn that off first.",
  );
}
