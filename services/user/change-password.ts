import { lockCaller } from "../accounts/lock-users.ts";
import { assertNotGuessable } from "../accounts/password-rules.ts";
import { recordAudit } from "../audit/record.ts";
import { confirmPassword, wrongPassword } from "../auth/confirm-password.ts";
import type { SignedInCall } from "../call.ts";
import { invalidateOneTimeTokens } from "../crypto/one-time-token.ts";
import { queueEmail } from "../mail/queue.ts";
import { invalid } from "../platform/errors.ts";
import { revokeSessions } from "../store/sessions.ts";
import { User } from "../store/users.ts";

/**
 * Sets a new password and ends every other session. Of parallel changes one succeeds.
 * @throws ServiceError INVALID_CURRENT_PASSWORD, VALIDATION_FAILED, ACCOUNT_LOCKED, UNAVAILABLE
 */
export async function changePassword(call: SignedInCall, currentPassword: string, newPassword: string): Promise<void> {
  const user = await confirmPassword(call, currentPassword);
  if (newPassword === currentPassword) throw invalid("newPassword", "must differ from the current password");
  assertNotGuessable(call, newPassword, user, "newPassword");
  const passwordHash = await call.passwords.hash(newPassword, call.client.address);
  await call.em.transactional(async () => {
    await lockCaller(call);
    const now = call.clock.now();
    const { id, passwordChangedAt } = user;
    const changes = { passwordHash, passwordChangedAt: now, updatedAt: now };
    const changed = await call.em.nativeUpdate(User, { id, passwordChangedAt }, changes);
    if (changed === 0) throw wrongPassword(); // a parallel request has changed it
    await revokeSessions(call, user.id, call.caller.session.id);
    await invalidateOneTimeTokens(call, user.id, ["reset-password", "change-email", "sign-in"]);
    await recordAudit(call, "user.password_changed", { userId: user.id });
    await queueEmail(call, user, "password-changed");
  });
}
