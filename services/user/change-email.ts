import { emailTaken, readEmailAddress } from "../accounts/email-address.ts";
import { lockCaller } from "../accounts/lock-users.ts";
import { confirmPassword } from "../auth/confirm-password.ts";
import type { SignedInCall } from "../call.ts";
import { issueOneTimeToken } from "../crypto/one-time-token.ts";
import { queueEmail } from "../mail/queue.ts";
import { formatDuration } from "../mail/templates.ts";
import { invalid } from "../platform/errors.ts";
import { User } from "../store/users.ts";

/**
 * Mails a verification token to the new address and a notice to the old one. The change takes effect on verification.
 * @throws ServiceError EMAIL_TAKEN, INVALID_CURRENT_PASSWORD, VALIDATION_FAILED, ACCOUNT_LOCKED, UNAVAILABLE
 */
export async function changeEmail(call: SignedInCall, newEmail: string, password: string): Promise<void> {
  const address = readEmailAddress(newEmail, "newEmail");
  const user = await confirmPassword(call, password);
  if (address.canonical === user.canonicalEmail) throw invalid("newEmail", "must differ from the present address");
  if (await call.em.findOne(User, { canonicalEmail: address.canonical }, { fields: ["id"] })) throw emailTaken();
  await call.em.transactional(async () => {
    await lockCaller(call);
    const tokenId = await issueOneTimeToken(call, {
      kind: "change-email",
      userId: user.id,
      email: address.stored,
      lifetimeMs: call.config.verifyTokenMs,
    });
    const lifetime = formatDuration(call.config.verifyTokenMs);
    const variables = { name: user.name, newEmail: address.stored, lifetime };
    await queueEmail(call, { userId: user.id, to: address.stored, template: "change-email", variables, tokenId });
    await queueEmail(call, { userId: user.id, to: user.email, template: "email-change-requested", variables });
  });
}
