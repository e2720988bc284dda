import { readEmailAddress } from "../accounts/email-address.ts";
import { assertNotGuessable } from "../accounts/password-rules.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { consumeOneTimeToken, invalidateOneTimeTokens, readOneTimeToken } from "../crypto/one-time-token.ts";
import { queueEmail } from "../mail/queue.ts";
import { disableMfa } from "../mfa/second-factor.ts";
import { invalid } from "../platform/errors.ts";
import { isPasswordExpired } from "../sessions/open-session.ts";
import { clearLocks } from "../store/attempts.ts";
import { revokeSessions } from "../store/sessions.ts";
import { User } from "../store/users.ts";
import { olderAddress } from "./verify-email.ts";

/**
 * Sets a new password with a mailed token. Every session ends, the locks of login and second factor clear, the address
 * counts as verified. A confirmed second factor stays, since the mail does not prove it. One of which no code was ever
 * accepted is disabled, and so is any on an account that was never verified: someone else may have set it up.
 * @throws ServiceError TOKEN_INVALID, VALIDATION_FAILED, UNAVAILABLE
 */
export async function resetPassword(call: Call, token: string, password: string): Promise<void> {
  const ownerId = await readOneTimeToken(call, token, "reset-password"); // checked first, since a hash is expensive
  if (call.config.passwordExpiry === "refuse") await refuseExpired(call, ownerId, password);
  const passwordHash = await call.passwords.hash(password, call.client.address);
  await call.em.transactional(async () => {
    const { userId, email } = await consumeOneTimeToken(call, token, ["reset-password"]);
    const now = call.clock.now();
    const canonicalEmail = readEmailAddress(email).canonical;
    const user = await call.em.findOne(User, { id: userId, canonicalEmail }, { refresh: true });
    if (!user || user.isDeletionDue(now)) throw olderAddress();
    assertNotGuessable(call, password, user, "password");
    const { emailVerified, wasVerified, mfaConfirmedAt } = user;
    Object.assign(user, { passwordHash, passwordChangedAt: now, updatedAt: now });
    user.emailVerifiedAt ??= now;
    await call.em.flush();
    await revokeSessions(call, userId);
    await invalidateOneTimeTokens(call, userId);
    await clearLocks(call, user, "reset");
    await recordAudit(call, "auth.password_reset", { userId });
    await queueEmail(call, user, "password-reset");
    if (!emailVerified) await recordAudit(call, "auth.email_verified", { userId });
    if (!mfaConfirmedAt || (!emailVerified && !wasVerified))
      await disableMfa(call, userId, { audit: true, notify: true });
  });
}

/** Rejects an expired password as the new one. */
async function refuseExpired(call: Call, userId: string, password: string): Promise<void> {
  const user = await call.em.findOne(User, { id: userId });
  if (!user || !isPasswordExpired(call, user)) return;
  if (await call.passwords.matches(user.passwordHash, password, call.client.address)) {
    throw invalid("password", "must differ from the one that has expired");
  }
}
