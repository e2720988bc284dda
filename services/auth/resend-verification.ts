import { readEmailAddress } from "../accounts/email-address.ts";
import { findUserByEmail } from "../accounts/find-user.ts";
import type { Call } from "../call.ts";
import { withMinimumDuration } from "../crypto/minimum-duration.ts";
import { lockUser } from "../store/users.ts";
import { queueToken } from "./queue-token.ts";

/**
 * Mails the verification token of an unverified address again. Neither response nor time reveals whether it was sent.
 * @throws ServiceError VALIDATION_FAILED
 */
export async function resendVerification(call: Call, email: string): Promise<void> {
  const address = readEmailAddress(email);
  await withMinimumDuration(async () => {
    const user = await findUserByEmail(call, address);
    if (!user || user.emailVerified) return;
    await call.em.transactional(async () => {
      if (await lockUser(call, user.id)) await queueToken(call, "verify-email", user);
    });
  });
}
