import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { emailTakenOr, readEmailAddress } from "../accounts/email-address.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { consumeOneTimeToken, invalidateOneTimeTokens, type VerifiedToken } from "../crypto/one-time-tokens.ts";
import { clearLock } from "../lockout/attempts.ts";
import { queueEmail } from "../mail/queue.ts";
import { ServiceError } from "../platform/errors.ts";

/**
 * Takes the mailed proof of an address: of a new account's, or of the one that it is to have from now on.
 * @throws ServiceError TOKEN_INVALID, EMAIL_TAKEN
 */
export async function verifyEmail(call: Call, token: string): Promise<void> {
  try {
    await call.em.transactional(async () => {
      const proof = await consumeOneTimeToken(call, token, ["verify-email", "change-email"]);
      await (proof.kind === "change-email" ? applyEmailChange(call, proof) : markEmailVerified(call, proof));
    });
  } catch (error) {
    throw emailTakenOr(error);
  }
}

async function markEmailVerified(call: Call, { userId, email }: VerifiedToken): Promise<void> {
  const now = call.clock.now();
  const changed = await call.em.execute<unknown[]>(
    `update users set email_verified_at = coalesce(email_verified_at, ?), updated_at = ?
     where id = ? and email = ? returning id`,
    [now, now, userId, email],
  );
  if (changed.length === 0)
    throw new ServiceError(Reason.TOKEN_INVALID, "This link belongs to an older e-mail address.");
  await recordAudit(call, "auth.email_verified", { userId });
}

/** Links that were mailed to the old address are void from then on, its wrong passwords are forgotten, and it is told. */
async function applyEmailChange(call: Call, { userId, email }: VerifiedToken): Promise<void> {
  const now = call.clock.now();
  const [old] = await call.em.execute<{ email: string; canonical_email: string; name: string }[]>(
    "select email, canonical_email, name from users where id = ?",
    [userId],
  );
  await call.em.execute(
    "update users set email = ?, canonical_email = ?, email_verified_at = ?, updated_at = ? where id = ?",
    [email, readEmailAddress(email).canonical, now, now, userId],
  );
  await invalidateOneTimeTokens(call, userId);
  await recordAudit(call, "user.email_changed", { userId });
  if (!old) return;
  await clearLock(call, { kind: "password", subject: old.canonical_email });
  const variables = { name: old.name, newEmail: email };
  await queueEmail(call, { userId, to: old.email, template: "email-changed", variables });
}
