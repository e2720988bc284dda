import { findUserByEmail } from "../accounts/find-user.ts";
import { lockUser } from "../accounts/lock-user.ts";
import type { Call } from "../call.ts";
import { withMinimumDuration } from "../crypto/minimum-duration.ts";
import { queueToken } from "./queue-token.ts";

/** Mails the proof of an unverified address again; nobody can tell by the answer or its time whether it was sent. */
export async function resendVerification(call: Call, email: string): Promise<void> {
  await withMinimumDuration(async () => {
    const user = await findUserByEmail(call, email);
    if (!user || user.emailVerified) return;
    await call.em.transactional(async () => {
      if (await lockUser(call, user.id)) await queueToken(call, "verify-email", user);
    });
  });
}
