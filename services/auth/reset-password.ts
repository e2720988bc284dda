import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { consumeOneTimeToken, invalidateOneTimeTokens, readOneTimeToken } from "../crypto/one-time-tokens.ts";
import { clearLock } from "../lockout/attempts.ts";
import { queueEmail } from "../mail/queue.ts";
import { disableMfa } from "../mfa/disable-mfa.ts";
import { invalid, ServiceError } from "../platform/errors.ts";
import { isPasswordExpired } from "../sessions/open-session.ts";
import { revokeSessions } from "../sessions/sessions.ts";
import { User } from "../store/user.ts";

type Account = {
  id: string;
  email: string;
  canonical_email: string;
  name: string;
  /** The address was verified before. */
  is_proved: boolean;
  /** This address or another one was. */
  was_verified: boolean;
};

/**
 * Sets a new password with a mailed token. Every session ends, the locks of login and second factor clear, the address
 * counts as verified. The second factor itself stays: whoever reads the mail has not proved that one. On an account that
 * was never verified it goes as well, since somebody else may have made it.
 * @throws ServiceError TOKEN_INVALID, VALIDATION_FAILED, UNAVAILABLE
 */
export async function resetPassword(call: Call, token: string, password: string): Promise<void> {
  const { userId: asking } = await readOneTimeToken(call, token, ["reset-password"]); // a wrong token is not worth a hash
  if (call.config.refuseExpiredPasswords) await refuseExpired(call, asking, password);
  const passwordHash = await call.passwords.hash(password);
  await call.em.transactional(async () => {
    const { userId, email } = await consumeOneTimeToken(call, token, ["reset-password"]);
    const user = await setPassword(call, userId, email, passwordHash);
    await revokeSessions(call, userId);
    await invalidateOneTimeTokens(call, userId);
    await clearLock(call, { kind: "password", subject: user.canonical_email });
    await clearLock(call, { kind: "second-factor", subject: userId });
    await recordAudit(call, "auth.password_reset", { userId });
    await queueEmail(call, { userId, to: user.email, template: "password-reset", variables: { name: user.name } });
    if (!user.is_proved) await recordAudit(call, "auth.email_verified", { userId });
    if (!user.was_verified) await disableMfa(call, userId, { audit: true, notify: true });
  });
}

/** What is too old to sign in with is too old to be set again. */
async function refuseExpired(call: Call, userId: string, password: string): Promise<void> {
  const user = await call.em.findOne(User, { id: userId });
  if (!user || !isPasswordExpired(call, user)) return;
  if (await call.passwords.matches(user.passwordHash, password)) {
    throw invalid("password", "must differ from the one that has expired");
  }
}

async function setPassword(call: Call, userId: string, email: string, passwordHash: string): Promise<Account> {
  const now = call.clock.now();
  const [user] = await call.em.execute<Account[]>(
    `update users as u set password_hash = ?, password_changed_at = ?, updated_at = ?,
       email_verified_at = coalesce(u.email_verified_at, ?)
     from (select id, email_verified_at is not null as is_proved from users where id = ?) as old
     where u.id = old.id and u.email = ? and (u.deletion_at is null or u.deletion_at > ?)
     returning u.id, u.email, u.canonical_email, u.name, old.is_proved, old.is_proved or u.was_verified as was_verified`,
    [passwordHash, now, now, now, userId, email, now],
  );
  if (!user) throw new ServiceError(Reason.TOKEN_INVALID, "This link belongs to an older e-mail address.");
  return user;
}
