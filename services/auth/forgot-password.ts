import { findUserByEmail } from "../accounts/find-user.ts";
import { lockUser } from "../accounts/lock-user.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { withMinimumDuration } from "../crypto/minimum-duration.ts";
import type { User } from "../store/user.ts";
import { queueToken } from "./queue-token.ts";

/** Mails a reset token to the account of an address, if there is one; nobody can tell by the answer or its time. */
export async function forgotPassword(call: Call, email: string): Promise<void> {
  await withMinimumDuration(async () => {
    const user = await findUserByEmail(call, email);
    if (user) await queueReset(call, user);
  });
}

/** Queues the mail with a reset token; an older one is void. */
export async function queueReset(call: Call, user: Pick<User, "id" | "email" | "name">): Promise<void> {
  await call.em.transactional(async () => {
    if (!(await lockUser(call, user.id))) return;
    await queueToken(call, "reset-password", user);
    await recordAudit(call, "auth.password_reset_requested", { userId: user.id });
  });
}
