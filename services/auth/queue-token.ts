import type { Call } from "../call.ts";
import { issueOneTimeToken } from "../crypto/one-time-token.ts";
import { queueEmail } from "../mail/queue.ts";
import { formatDuration } from "../mail/templates.ts";
import type { User } from "../store/users.ts";

/**
 * Queues the mail with a one-time token to the user's address; the token replaces an older one of its kind. Joins the
 * caller's transaction.
 */
export async function queueToken(
  call: Call,
  kind: "verify-email" | "reset-password",
  user: Pick<User, "id" | "email" | "name">,
): Promise<void> {
  const { id: userId, email, name } = user;
  const lifetimeMs = kind === "verify-email" ? call.config.verifyTokenMs : call.config.resetTokenMs;
  const tokenId = await issueOneTimeToken(call, { kind, userId, email, lifetimeMs });
  const variables = { name, lifetime: formatDuration(lifetimeMs) };
  await queueEmail(call, { userId, to: email, template: kind, variables, tokenId });
}
