import { readEmailAddress } from "../accounts/email-address.ts";
import { assertNotGuessable } from "../accounts/password-rules.ts";
import { endOtherAccess } from "../accounts/reset-access.ts";
import { revokeAllKeysOf } from "../accounts/revoke-api-keys.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { consumeOneTimeToken, olderAddress, readOneTimeToken } from "../mail/one-time-token.ts";
import { hasReachedLimit, queueEmail, queueEmails } from "../mail/queue.ts";
import { lifetimeOf } from "../mail/templates.ts";
import { disableAuthenticator } from "../mfa/second-factor.ts";
import { invalid } from "../platform/rpc/errors.ts";
import { isPasswordExpired } from "../sessions/open-session.ts";
import type { NamedKey } from "../store/api-keys.ts";
import { clearLocks } from "../store/attempts.ts";
import {
  invalidateTokensButNotMe,
  issueOneTimeToken,
  OneTimeToken,
  type OneTimeTokenKind,
} from "../store/one-time-tokens.ts";
import { revokeSessions } from "../store/sessions.ts";
import { lockUser, User } from "../store/users.ts";
import { withAccount } from "./with-account.ts";

/**
 * Mails a reset token if the address has an account. Neither the response nor its timing reveals
 * whether it does.
 * @throws ServiceError VALIDATION_FAILED
 */
export async function forgotPassword(call: Call, email: string): Promise<void> {
  await withAccount(call, email, (user) => queueRequestedReset(call, user));
}

/**
 * Time within which another request mails the same token again, so that strangers cannot keep
 * invalidating a user's link. In ms.
 */
const SAME_TOKEN_MS = 300_000;

/**
 * Queues the e-mail with a reset token for whoever asks: within five minutes the same token, after
 * that a new one that replaces it. Beyond the limits of e-mails, only to a mailbox without a token
 * that still holds: strangers who use the limits up do not take the way back from the owner.
 */
export async function queueRequestedReset(
  call: Call,
  user: Pick<User, "id" | "email" | "name">,
): Promise<void> {
  await call.em.transactional(async () => {
    if (!(await lockUser(call, user.id))) return;
    const now = call.clock.now();
    const { id, email } = user;
    const token = await call.em.findOne(
      OneTimeToken,
      { user: id, kind: "reset-password", email, expiresAt: { $gt: now } },
      { refresh: true },
    );
    if (token && (await hasReachedLimit(call, user, "reset-password"))) return;
    const isYoung = token && now.getTime() - token.createdAt.getTime() < SAME_TOKEN_MS;
    await queueReset(call, user, isYoung ? token.id : undefined);
  });
}

/**
 * Queues the e-mail with a reset token, however many there have been. Joins the caller's
 * transaction, which has locked the user.
 * @param tokenId of a token that is mailed again
 */
export async function queueReset(
  call: Call,
  user: Pick<User, "id" | "email" | "name">,
  tokenId?: string,
): Promise<void> {
  const { resetTokenTtlMs } = call.config;
  const id = tokenId ?? (await issueOneTimeToken(call, "reset-password", user, resetTokenTtlMs)).id;
  const lifetime = lifetimeOf(resetTokenTtlMs);
  await queueEmails(call, [user], "reset-password", { lifetime }, id);
  await recordAudit(call, "auth.password_reset_requested", { userId: user.id });
}

/** The mailed tokens that set a password. */
const TOKENS: OneTimeTokenKind[] = ["reset-password", "invitation"];

/**
 * Sets a new password with a mailed token. Ends all sessions, revokes all API keys, clears the
 * locks of login and second factor, and marks the address as verified. A confirmed second factor is
 * kept, since access to the mail does not prove it. A factor without an accepted code is disabled,
 * and so is any factor of an account that was never verified: someone else may have set it up.
 * @throws ServiceError TOKEN_INVALID, VALIDATION_FAILED, UNAVAILABLE
 */
export async function resetPassword(call: Call, token: string, password: string): Promise<void> {
  const { userId: ownerId } = await readOneTimeToken(call, token, TOKENS); // checked first, since hashing is expensive
  if (call.config.passwordExpiry === "refuse") await refuseExpired(call, ownerId, password);
  const passwordHash = await call.passwords.hash(password, call.client.address);
  await call.em.transactional(async () => {
    const { userId, email } = await consumeOneTimeToken(call, token, TOKENS);
    const now = call.clock.now();
    const canonicalEmail = readEmailAddress(email).canonical;
    const user = await call.em.findOne(User, { id: userId, canonicalEmail }, { refresh: true });
    if (!user || user.isDeletionDue(now)) throw olderAddress();
    assertNotGuessable(call, password, user, "password");
    const { emailVerified, wasVerified, mfaConfirmedAt } = user;
    Object.assign(user, {
      passwordHash,
      hasPassword: true,
      passwordChangedAt: now,
      updatedAt: now,
    });
    user.emailVerifiedAt ??= now;
    await call.em.flush();
    await revokeSessions(call, userId);
    await invalidateTokensButNotMe(call, userId); // passkeys and identities stay, which the owner may still want to undo
    await clearLocks(call, user, "reset");
    await recordAudit(call, "auth.password_reset", { userId });
    const keys = await revokeAllKeysOf(call, userId); // someone else may have made them
    await queueEmail(call, user, "password-reset", keys.length > 0 ? { keys: listOf(keys) } : {});
    if (!emailVerified) await recordAudit(call, "auth.email_verified", { userId });
    if (!emailVerified && !wasVerified)
      await endOtherAccess(call, userId, { event: "auth.mfa_disabled" });
    else if (user.mfaEnabled && !mfaConfirmedAt) await disableAuthenticator(call, userId);
  });
}

/** The names of keys, for an e-mail. */
const listOf = (keys: readonly NamedKey[]) =>
  keys.map(({ name, hint }) => `“${name}” (${hint})`).join(", ");

/** Rejects an expired password as the new one. */
async function refuseExpired(call: Call, userId: string, password: string): Promise<void> {
  const user = await call.em.findOne(User, { id: userId });
  if (!user || !isPasswordExpired(call, user)) return;
  if (await call.passwords.matches(user.passwordHash, password, call.client.address)) {
    throw invalid("password", "must differ from the one that has expired");
  }
}
