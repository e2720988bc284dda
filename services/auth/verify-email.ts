import { leaveAddress, readEmailAddress, withUniqueAddress } from "../accounts/email-address.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { consumeOneTimeToken, olderAddress } from "../mail/one-time-token.ts";
import { hasReachedLimit, queueEmails } from "../mail/queue.ts";
import { lifetimeOf } from "../mail/templates.ts";
import { findFirstVerification } from "../store/emails.ts";
import { issueOneTimeToken } from "../store/one-time-tokens.ts";
import { lockUser, User } from "../store/users.ts";
import { withAccount } from "./with-account.ts";

/**
 * Mails a new verification token to an unverified address. Neither the response nor its timing
 * reveals whether it was sent.
 * @throws ServiceError VALIDATION_FAILED
 */
export async function resendVerification(call: Call, email: string): Promise<void> {
  await withAccount(call, email, async (user) => {
    if (user.emailVerified) return;
    await call.em.transactional(async () => {
      if (!(await lockUser(call, user.id)) || (await hasReachedLimit(call, user, "verify-email")))
        return;
      const { verifyTokenTtlMs } = call.config;
      const token = await issueOneTimeToken(call, "verify-email", user, verifyTokenTtlMs);
      const first = await findFirstVerification(call, user); // which says where the account was registered
      const variables = { ...first?.variables, lifetime: lifetimeOf(verifyTokenTtlMs) };
      await queueEmails(call, [user], "verify-email", variables, token.id);
    });
  });
}

/**
 * Consumes a token mailed to an address: that of a new account, or the new address of an account.
 * @throws ServiceError TOKEN_INVALID, EMAIL_TAKEN
 */
export async function verifyEmail(call: Call, token: string): Promise<void> {
  await withUniqueAddress(call, async () => {
    const { kind, userId, email, deviceId } = await consumeOneTimeToken(call, token, [
      "verify-email",
      "change-email",
    ]);
    const user = await call.em.findOneOrFail(User, { id: userId });
    const old = {
      id: userId,
      email: user.email,
      canonicalEmail: user.canonicalEmail,
      name: user.name,
    };
    const { canonical: canonicalEmail } = readEmailAddress(email);
    const now = call.clock.now();
    if (kind === "change-email")
      Object.assign(user, { email, canonicalEmail, emailVerifiedAt: now });
    else if (canonicalEmail !== user.canonicalEmail) throw olderAddress();
    user.emailVerifiedAt ??= now;
    user.updatedAt = now;
    await call.em.flush();
    const event = kind === "change-email" ? "user.email_changed" : "auth.email_verified";
    await recordAudit(call, event, { userId });
    if (canonicalEmail !== old.canonicalEmail) await leaveAddress(call, old, email, { deviceId });
  });
}
