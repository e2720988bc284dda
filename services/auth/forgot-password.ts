import { recordAudit } from "../audit.ts";
import type { Call } from "../call.ts";
import { queueEmail } from "../mail/outbox.ts";
import { toldLifetime } from "../mail/templates.ts";
import { lockUser } from "../security/lock-user.ts";
import { issueOneTimeToken } from "../security/one-time-tokens.ts";
import { atSteadyPace } from "../security/steady-pace.ts";
import type { User } from "../store/user.ts";
import { findAccount } from "./find-account.ts";

/** Mails a reset token to the account of an address, if there is one; nobody can tell by the answer or its time. */
export async function forgotPassword(call: Call, email: string): Promise<void> {
  await atSteadyPace(async () => {
    const user = await findAccount(call, email);
    if (user) await queueReset(call, user);
  });
}

/** Queues the mail with a reset token; an older one is void. */
export async function queueReset(call: Call, user: Pick<User, "id" | "email" | "name">): Promise<void> {
  await call.em.transactional(async () => {
    if (!(await lockUser(call, user.id))) return;
    const tokenId = await issueOneTimeToken(call, {
      kind: "reset-password",
      userId: user.id,
      email: user.email,
      lifetimeMs: call.config.resetTokenMs,
    });
    await queueEmail(call, {
      userId: user.id,
      to: user.email,
      template: "reset-password",
      facts: { name: user.name, lifetime: toldLifetime(call.config.resetTokenMs) },
      tokenId,
    });
    await recordAudit(call, "auth.password_reset_requested", { userId: user.id });
  });
}
