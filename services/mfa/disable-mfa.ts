import { type AuditDeps, recordAudit } from "../audit/record.ts";
import { invalidateOneTimeTokens } from "../crypto/one-time-token.ts";
import { type QueueDeps, queueEmail } from "../mail/queue.ts";
import { deleteAttempts } from "../store/attempts.ts";
import { replaceBackupCodes, User } from "../store/users.ts";

/**
 * Disables a user's second factor: secret, backup codes, what was counted against them, and pending MFA tokens. Joins the
 * caller's transaction, which has locked the user.
 * @param options.audit records `auth.mfa_disabled`; an administrator's change is recorded as `admin.user_updated` instead.
 * @param options.notify queues a mail to the user.
 * @returns false if the user had no second factor.
 */
export async function disableMfa(
  call: AuditDeps & QueueDeps,
  userId: string,
  options: { audit: boolean; notify: boolean },
): Promise<boolean> {
  const user = await call.em.findOne(User, { id: userId, mfaSecret: { $ne: null } }, { refresh: true });
  if (!user) return false;
  const disabled = { mfaSecret: null, mfaConfirmedAt: null, mfaLastStep: null, updatedAt: call.clock.now() };
  await call.em.nativeUpdate(User, { id: userId }, disabled);
  await replaceBackupCodes(call, userId, []);
  await invalidateOneTimeTokens(call, userId, ["sign-in"]);
  await deleteAttempts(call, userId, "second-factor", "backup-code");
  if (options.audit) await recordAudit(call, "auth.mfa_disabled", { userId });
  if (options.notify) await queueEmail(call, user, "mfa-disabled");
  return true;
}
