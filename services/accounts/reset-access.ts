import type { Call, SystemCall } from "../call.ts";
import { disableMfa } from "../mfa/second-factor.ts";
import { deleteIdentities } from "../store/identities.ts";
import { invalidateOneTimeTokens } from "../store/one-time-tokens.ts";
import { deletePasskeys } from "../store/passkeys.ts";
import { revokeSessions } from "../store/sessions.ts";
import { User } from "../store/users.ts";
import { revokeAllKeysOf } from "./revoke-keys.ts";

/**
 * Ends everything that opens an account but its password: sessions, passkeys, identities, second factor, API keys and
 * one-time tokens. Joins the caller's transaction, which has locked the user.
 * @param event is recorded if there was a second factor
 */
export async function endOtherAccess(
  call: SystemCall,
  userId: string,
  event?: "auth.mfa_disabled",
): Promise<void> {
  await revokeSessions(call, userId);
  await invalidateOneTimeTokens(call, userId);
  await deletePasskeys(call, userId);
  await deleteIdentities(call, userId);
  await disableMfa(call, userId, event);
  await revokeAllKeysOf(call, userId);
}

/**
 * Makes the password of an account void, so that no text opens it. A sign-in in progress fails.
 * Joins the caller's transaction, which has locked the user.
 */
export async function voidPassword(
  call: SystemCall & Pick<Call, "passwords">,
  userId: string,
): Promise<void> {
  const now = call.clock.now();
  const passwordHash = call.passwords.noPassword;
  const changes = { hasPassword: false, passwordHash, passwordChangedAt: now, updatedAt: now };
  await call.em.nativeUpdate(User, { id: userId }, changes);
}

/**
 * Ends everything that opens an account. Its owner comes back by a reset of the password. Joins the
 * caller's transaction, which has locked the user.
 */
export async function endAccess(
  call: SystemCall & Pick<Call, "passwords">,
  userId: string,
): Promise<void> {
  await endOtherAccess(call, userId);
  await voidPassword(call, userId);
}
