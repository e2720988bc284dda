import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { emailTakenOr, leaveAddress, readEmailAddress } from "../accounts/email-address.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { consumeOneTimeToken } from "../crypto/one-time-token.ts";
import { ServiceError } from "../platform/errors.ts";
import { User } from "../store/users.ts";

/**
 * Consumes the mailed token of an address: that of a new account, or the new address of an account.
 * @throws ServiceError TOKEN_INVALID, EMAIL_TAKEN
 */
export async function verifyEmail(call: Call, token: string): Promise<void> {
  try {
    await call.em.transactional(async () => {
      const { kind, userId, email } = await consumeOneTimeToken(call, token, ["verify-email", "change-email"]);
      const user = await call.em.findOneOrFail(User, { id: userId });
      await (kind === "change-email" ? applyEmailChange(call, user, email) : markEmailVerified(call, user, email));
    });
  } catch (error) {
    throw emailTakenOr(error);
  }
}

async function markEmailVerified(call: Call, user: User, email: string): Promise<void> {
  if (readEmailAddress(email).canonical !== user.canonicalEmail)
    throw new ServiceError(Reason.TOKEN_INVALID, "This link belongs to an older e-mail address.");
  const now = call.clock.now();
  user.emailVerifiedAt ??= now;
  user.updatedAt = now;
  await call.em.flush();
  await recordAudit(call, "auth.email_verified", { userId: user.id });
}

async function applyEmailChange(call: Call, user: User, email: string): Promise<void> {
  const old = { id: user.id, email: user.email, canonicalEmail: user.canonicalEmail, name: user.name };
  const now = call.clock.now();
  const canonicalEmail = readEmailAddress(email).canonical;
  Object.assign(user, { email, canonicalEmail, emailVerifiedAt: now, updatedAt: now });
  await call.em.flush();
  await recordAudit(call, "user.email_changed", { userId: user.id });
  await leaveAddress(call, old, email);
}
