import type { Call } from "../call.ts";
import { issueOneTimeToken } from "../crypto/one-time-tokens.ts";
import { queueEmail } from "../mail/queue.ts";
import { formatDuration } from "../mail/templates.ts";
import type { User } from "../store/user.ts";

/**
 * Queues the mail that brings a one-time token to its user's address; an older one of its kind is void. Joins the
 * transaction it is called in.
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
