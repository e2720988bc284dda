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
      const old = { id: userId, email: user.email, canonicalEmail: user.canonicalEmail, name: user.name };
      const { canonical: canonicalEmail } = readEmailAddress(email);
      const now = call.clock.now();
      if (kind === "change-email") Object.assign(user, { email, canonicalEmail, emailVerifiedAt: now });
      else if (canonicalEmail !== user.canonicalEmail) throw olderAddress();
      user.emailVerifiedAt ??= now;
      user.updatedAt = now;
      await call.em.flush();
      const event = kind === "change-email" ? "user.email_changed" : "auth.email_verified";
      await recordAudit(call, event, { userId });
      if (kind === "change-email") await leaveAddress(call, old, email);
    });
  } catch (error) {
    throw emailTakenOr(error);
  }
}

/** The error for a link that was mailed to an address which the account no longer has. */
export const olderAddress = () =>
  new ServiceError(Reason.TOKEN_INVALID, "This link belongs to an older e-mail address.");
