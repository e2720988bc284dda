import { setTimeout as wait } from "node:timers/promises";
import { readEmailAddress } from "../accounts/email-address.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { issueOneTimeToken } from "../crypto/one-time-token.ts";
import { hasReachedLimit, queueEmail } from "../mail/queue.ts";
import { formatDuration } from "../mail/templates.ts";
import { OneTimeToken } from "../store/one-time-tokens.ts";
import { lockUser, User } from "../store/users.ts";

/**
 * Mails a reset token to the account of an address, if there is one. Neither response nor time reveals whether there is.
 * @throws ServiceError VALIDATION_FAILED
 */
export async function forgotPassword(call: Call, email: string): Promise<void> {
  await withAccount(call, email, (user) => queueReset(call, user));
}

/** Time in which another request mails the same token again, so that strangers cannot void a link all the time. In ms. */
const SAME_TOKEN_MS = 300_000;

/** Queues the mail with a reset token: within five minutes the same token, afterwards one that replaces it. */
export async function queueReset(call: Call, user: Pick<User, "id" | "email" | "name">): Promise<void> {
  await call.em.transactional(async () => {
    if (!(await lockUser(call, user.id))) return;
    if (await hasReachedLimit(call, user.id, "reset-password")) return;
    const { resetTokenTtlMs } = call.config;
    const now = call.clock.now();
    const valid = { createdAt: { $gt: new Date(now.getTime() - SAME_TOKEN_MS) }, expiresAt: { $gt: now } };
    const { id, email } = user;
    const known = await call.em.findOne(OneTimeToken, { user: id, kind: "reset-password", email, ...valid });
    const token = known ?? (await issueOneTimeToken(call, "reset-password", user, resetTokenTtlMs));
    await queueEmail(call, user, "reset-password", { lifetime: formatDuration(resetTokenTtlMs) }, token.id);
    await recordAudit(call, "auth.password_reset_requested", { userId: user.id });
  });
}

/**
 * Mails the verification token of an unverified address again. Neither response nor time reveals whether it was sent.
 * @throws ServiceError VALIDATION_FAILED
 */
export async function resendVerification(call: Call, email: string): Promise<void> {
  await withAccount(call, email, async (user) => {
    if (user.emailVerified) return;
    await call.em.transactional(async () => {
      if (!(await lockUser(call, user.id)) || (await hasReachedLimit(call, user.id, "verify-email"))) return;
      const { verifyTokenTtlMs } = call.config;
      const token = await issueOneTimeToken(call, "verify-email", user, verifyTokenTtlMs);
      await queueEmail(call, user, "verify-email", { lifetime: formatDuration(verifyTokenTtlMs) }, token.id);
    });
  });
}

/** Minimum duration, longer than the work, so that it reveals nothing. In ms. */
const MIN_DURATION_MS = 100;

/** Runs work for the account of an address, unless its deletion is due. Takes the same time if there is none. */
async function withAccount(call: Call, email: string, work: (user: User) => Promise<void>): Promise<void> {
  const { canonical } = readEmailAddress(email);
  const find = async () => {
    const user = await call.em.findOne(User, { canonicalEmail: canonical });
    if (user && !user.isDeletionDue(call.clock.now())) await work(user);
  };
  const [outcome] = await Promise.allSettled([find(), wait(MIN_DURATION_MS)]);
  if (outcome.status === "rejected") throw outcome.reason;
}
