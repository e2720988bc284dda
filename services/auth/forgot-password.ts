import { readEmailAddress } from "../accounts/email-address.ts";
import { findUserByEmail } from "../accounts/find-user.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { withMinimumDuration } from "../crypto/minimum-duration.ts";
import { lockUser, type User } from "../store/users.ts";
import { queueToken } from "./queue-token.ts";

/**
 * Mails a reset token to the account of an address, if there is one. Neither response nor time reveals whether there is.
 * @throws ServiceError VALIDATION_FAILED
 */
export async function forgotPassword(call: Call, email: string): Promise<void> {
  const address = readEmailAddress(email);
  await withMinimumDuration(async () => {
    const user = await findUserByEmail(call, address);
    if (user) await queueReset(call, user);
  });
}

/** Queues the mail with a reset token, which replaces an older one. */
export async function queueReset(call: Call, user: Pick<User, "id" | "email" | "name">): Promise<void> {
  await call.em.transactional(async () => {
    if (!(await lockUser(call, user.id))) return;
    await queueToken(call, "reset-password", user);
    await recordAudit(call, "auth.password_reset_requested", { userId: user.id });
  });
}
