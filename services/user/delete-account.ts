import { assertOtherAdmin, lockCaller } from "../accounts/lock-users.ts";
import { recordAudit } from "../audit/record.ts";
import { confirmPassword } from "../auth/confirm-password.ts";
import type { SignedInCall } from "../call.ts";
import { invalidateOneTimeTokens } from "../crypto/one-time-token.ts";
import { queueEmail } from "../mail/queue.ts";
import { invalid } from "../platform/errors.ts";
import { isRecentSignIn } from "../sessions/check-session.ts";
import { revokeSessions } from "../store/sessions.ts";
import { User } from "../store/users.ts";

/**
 * Requests the account's deletion and ends all its sessions. Signing in before the date cancels it.
 * @returns when the account will be erased.
 * @throws ServiceError VALIDATION_FAILED, INVALID_CURRENT_PASSWORD, ACCOUNT_LOCKED, LAST_ADMIN
 */
export async function deleteAccount(call: SignedInCall, password: string | undefined): Promise<Date> {
  const { user } = call.caller;
  if (password !== undefined) await confirmPassword(call, password);
  else if (!isRecentSignIn(call)) {
    throw invalid("password", "must be given when signing in was more than 15 minutes ago");
  }
  return call.em.transactional(async () => {
    await assertOtherAdmin(call, user.id);
    await lockCaller(call);
    const now = call.clock.now();
    const deletionAt = new Date(now.getTime() + call.config.deletionGraceMs);
    await call.em.nativeUpdate(User, { id: user.id }, { deletionAt, updatedAt: now });
    await revokeSessions(call, user.id);
    await invalidateOneTimeTokens(call, user.id);
    await recordAudit(call, "user.deletion_requested", { userId: user.id });
    const date = `${deletionAt.toISOString().slice(0, 16).replace("T", " ")} UTC`;
    await queueEmail(call, user, "deletion-requested", { date });
    return deletionAt;
  });
}
