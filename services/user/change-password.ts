import { lockCaller } from "../accounts/lock-user.ts";
import { recordAudit } from "../audit/record.ts";
import { confirmPassword, wrongPassword } from "../auth/confirm-password.ts";
import type { SignedInCall } from "../call.ts";
import { invalidateOneTimeTokens } from "../crypto/one-time-tokens.ts";
import { queueEmail } from "../mail/queue.ts";
import { invalid } from "../platform/errors.ts";
import { revokeSessions } from "../sessions/sessions.ts";

/**
 * Sets a new password and ends every other session; of parallel changes one wins.
 * @throws ServiceError INVALID_CURRENT_PASSWORD, VALIDATION_FAILED, ACCOUNT_LOCKED, UNAVAILABLE
 */
export async function changePassword(call: SignedInCall, currentPassword: string, newPassword: string): Promise<void> {
  const user = await confirmPassword(call, currentPassword);
  if (newPassword === currentPassword) throw invalid("newPassword", "must differ from the current password");
  const passwordHash = await call.passwords.hash(newPassword);
  await call.em.transactional(async () => {
    await lockCaller(call);
    const now = call.clock.now();
    const changed = await call.em.execute<unknown[]>(
      `update users set password_hash = ?, password_changed_at = ?, updated_at = ?
       where id = ? and password_changed_at = ? returning id`,
      [passwordHash, now, now, user.id, user.passwordChangedAt],
    );
    if (changed.length === 0) throw wrongPassword(); // somebody else has just changed it
    await revokeSessions(call, user.id, call.caller.session.id);
    await invalidateOneTimeTokens(call, user.id, ["reset-password", "change-email", "sign-in"]);
    await recordAudit(call, "user.password_changed", { userId: user.id });
    await queueEmail(call, {
      userId: user.id,
      to: user.email,
      template: "password-changed",
      variables: { name: user.name },
    });
  });
}
