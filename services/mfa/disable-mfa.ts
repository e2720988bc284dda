import { type AuditDeps, recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { invalidateOneTimeTokens } from "../crypto/one-time-tokens.ts";
import { queueEmail } from "../mail/queue.ts";
import { removeBackupCodes } from "./backup-codes.ts";

type Deps = AuditDeps & Pick<Call, "onComplete" | "mailWorker">;

/**
 * Disables a user's second factor: secret, backup codes and pending MFA tokens. Joins the caller's transaction.
 * @param options.audit records `auth.mfa_disabled`; an administrator's change is recorded as `admin.user_updated` instead.
 * @param options.notify queues a mail to the user.
 * @returns false if the user had no second factor.
 */
export async function disableMfa(
  call: Deps,
  userId: string,
  options: { audit: boolean; notify: boolean },
): Promise<boolean> {
  const [user] = await call.em.execute<{ email: string; name: string }[]>(
    `update users set mfa_secret = null, mfa_confirmed_at = null, mfa_last_step = null, updated_at = ?
     where id = ? and mfa_secret is not null returning email, name`,
    [call.clock.now(), userId],
  );
  await removeBackupCodes(call, userId);
  await invalidateOneTimeTokens(call, userId, ["sign-in"]);
  if (!user) return false;
  if (options.audit) await recordAudit(call, "auth.mfa_disabled", { userId });
  if (options.notify) {
    await queueEmail(call, { userId, to: user.email, template: "mfa-disabled", variables: { name: user.name } });
  }
  return true;
}
