import type { Call, SystemCall } from "../call.ts";
import { disableAuthenticator, disableMfa } from "../mfa/second-factor.ts";
import { deleteDevices } from "../store/devices.ts";
import { deleteIdentities } from "../store/identities.ts";
import { invalidateOneTimeTokens, invalidateTokensButNotMe } from "../store/one-time-tokens.ts";
import { countPasskeys, deletePasskeys } from "../store/passkeys.ts";
import { revokeSessions } from "../store/sessions.ts";
import { deleteBackupCodesSince, User } from "../store/users.ts";
import { revokeAllKeysOf } from "./revoke-api-keys.ts";

/**
 * Removes everything that gives access to an account except the password: sessions, passkeys,
 * identities, second factor, API keys, known devices and one-time tokens. Joins the caller's
 * transaction, which has locked the user.
 * @param event recorded if there was a second factor
 * @param since keeps the passkeys, identities and second factors from before this time, and the
 * tokens that undo a sign-in
 */
export async function endOtherAccess(
  call: SystemCall,
  userId: string,
  { event, since }: { event?: "auth.mfa_disabled"; since?: Date } = {},
): Promise<void> {
  await revokeSessions(call, userId);
  if (since) await invalidateTokensButNotMe(call, userId);
  else await invalidateOneTimeTokens(call, userId);
  await deletePasskeys(call, userId, since);
  await deleteIdentities(call, userId, since);
  if (since) await endFactorsSince(call, userId, since);
  else await disableMfa(call, userId, event);
  await deleteDevices(call, userId);
  await revokeAllKeysOf(call, userId);
}

/**
 * Removes an authenticator app that was confirmed at or after `since`, or never, and backup codes
 * created since then. Ends the requirement of a second factor if none is left. Call it after
 * removing passkeys.
 */
async function endFactorsSince(call: SystemCall, userId: string, since: Date): Promise<void> {
  const user = await call.em.findOne(User, { id: userId }, { refresh: true });
  if (!user) return;
  const isOlder = user.mfaConfirmedAt != null && user.mfaConfirmedAt < since;
  if (user.mfaEnabled && !isOlder) await disableAuthenticator(call, userId);
  await deleteBackupCodesSince(call, userId, since);
  const { relyingParty } = call.config;
  const passkeys = relyingParty ? await countPasskeys(call, userId, relyingParty.id) : 0;
  if (!isOlder && passkeys === 0) await disableMfa(call, userId, "auth.mfa_disabled"); // ends the requirement, if any
}

/**
 * Invalidates the password of an account, so that no text matches it. A sign-in in progress fails.
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
 * Removes everything that gives access to an account. Its owner returns by resetting the password.
 * Joins the caller's transaction, which has locked the user.
 * @param since keeps the passkeys, identities and second factors from before this time
 */
export async function endAccess(
  call: SystemCall & Pick<Call, "passwords">,
  userId: string,
  since?: Date,
): Promise<void> {
  await endOtherAccess(call, userId, since && { since });
  await voidPassword(call, userId);
}
