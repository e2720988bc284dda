import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { readEmailAddress, withUniqueAddress } from "../accounts/email-address.ts";
import { eraseUser, unownedUsers } from "../accounts/erase-user.ts";
import { endAccess } from "../accounts/reset-access.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { consumeOneTimeToken, olderAddress } from "../mail/one-time-token.ts";
import { queueEmail, queueEmails } from "../mail/queue.ts";
import { lifetimeOf } from "../mail/templates.ts";
import { invalid, ServiceError } from "../platform/rpc/errors.ts";
import { deleteAttempts } from "../store/attempts.ts";
import {
  invalidateOneTimeTokens,
  issueOneTimeToken,
  type OneTimeTokenKind,
} from "../store/one-time-tokens.ts";
import { User } from "../store/users.ts";

/** What happened to an account: somebody else's access has ended, or it is gone. */
export type Disowned = "access-ended" | "erased";

/**
 * Undoes a sign-in, or a registration of an address that was never verified, which the owner of the
 * address did not make. If a session has changed the address since the sign-in, the account gets
 * back the one to which the token was mailed. Programs that open the links of e-mails send no
 * address, so they change nothing.
 * @param email the address to which the token was mailed
 * @throws ServiceError TOKEN_INVALID; EMAIL_TAKEN, and VALIDATION_FAILED for another address, which
 * keep the token
 */
export async function disown(call: Call, tokenText: string, email: string): Promise<Disowned> {
  const { canonical } = readEmailAddress(email);
  return withUniqueAddress(call, async () => {
    const kinds: OneTimeTokenKind[] = ["not-me", "not-me-before", "verify-email"];
    const token = await consumeOneTimeToken(call, tokenText, kinds);
    if (readEmailAddress(token.email).canonical !== canonical)
      throw invalid("email", "must be the address to which the e-mail was sent");
    const user = await call.em.findOne(User, { id: token.userId }, { refresh: true });
    if (!user || user.isDeletionDue(call.clock.now())) throw olderAddress();
    if (token.kind === "not-me-before") await restoreAddress(call, user, token.email);
    else if (user.canonicalEmail !== canonical) throw olderAddress();
    if (token.kind === "verify-email") return eraseUnwanted(call, user);
    await endAccess(call, user.id, token.createdAt);
    await recordAudit(call, "auth.disowned", { userId: user.id });
    await queueResetAfter(call, user);
    return "access-ended";
  });
}

/**
 * Gives an account back the address that it had at the sign-in. Tokens that were mailed to later
 * addresses end, and those who read their mail are told. An account that somebody has registered
 * there since is erased if its address was never verified: a stranger could otherwise keep the
 * owner out by a registration.
 */
async function restoreAddress(call: Call, user: User, email: string): Promise<void> {
  const { id, name, email: laterEmail, canonicalEmail: laterCanonical } = user;
  const { canonical: canonicalEmail } = readEmailAddress(email);
  const now = call.clock.now();
  const other = await call.em.findOne(User, { canonicalEmail, id: { $ne: id } });
  if (other && (await eraseUser(call, other.id, unownedUsers(now))))
    await recordAudit(call, "auth.disowned", { userId: other.id });
  Object.assign(user, { email, canonicalEmail, emailVerifiedAt: now, updatedAt: now });
  await call.em.flush();
  await invalidateOneTimeTokens(call, id);
  await deleteAttempts(call, laterCanonical, "password");
  await recordAudit(call, "user.email_changed", { userId: id });
  await queueEmail(call, { id, name, email: laterEmail }, "email-changed", { newEmail: email });
}

/** Erases an account that was never verified. Those of administrators and suspended ones stay. */
async function eraseUnwanted(call: Call, user: User): Promise<Disowned> {
  const isKept = user.suspendedAt !== null || user.isProtectedAsAdmin(call.clock.now());
  if (!user.isNeverVerified() || isKept)
    throw new ServiceError(
      Reason.TOKEN_INVALID,
      "This link can't delete the account. Please contact us.",
    );
  await recordAudit(call, "auth.disowned", { userId: user.id });
  await eraseUser(call, user.id);
  return "erased";
}

/** Mails a token that sets a new password. No stranger can cause it, so no hourly limit applies. */
async function queueResetAfter(call: Call, user: User): Promise<void> {
  const { resetTokenTtlMs } = call.config;
  const token = await issueOneTimeToken(call, "reset-password", user, resetTokenTtlMs);
  const lifetime = lifetimeOf(resetTokenTtlMs);
  await queueEmails(call, [user], "reset-password", { lifetime }, token.id);
}
