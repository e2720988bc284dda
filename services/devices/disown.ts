import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { readEmailAddress } from "../accounts/email-address.ts";
import { eraseUser } from "../accounts/erase-user.ts";
import { endAccess } from "../accounts/reset-access.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { consumeOneTimeToken, olderAddress } from "../mail/one-time-token.ts";
import { queueEmails } from "../mail/queue.ts";
import { lifetimeOf } from "../mail/templates.ts";
import { invalid, ServiceError } from "../platform/rpc/errors.ts";
import { issueOneTimeToken } from "../store/one-time-tokens.ts";
import { User } from "../store/users.ts";

/** What happened to an account: somebody else's access has ended, or it is gone. */
export type Disowned = "access-ended" | "erased";

/**
 * Undoes a sign-in, or a registration of an address that was never verified, which the owner of the address
 * did not make. Programs that open the links of e-mails send no address, so they change nothing.
 * @param email the address to which the token was mailed
 * @throws ServiceError TOKEN_INVALID, VALIDATION_FAILED for another address, which keeps the token
 */
export async function disown(call: Call, tokenText: string, email: string): Promise<Disowned> {
  const { canonical } = readEmailAddress(email);
  return call.em.transactional(async () => {
    const token = await consumeOneTimeToken(call, tokenText, ["not-me", "verify-email"]);
    if (readEmailAddress(token.email).canonical !== canonical)
      throw invalid("email", "must be the address to which the e-mail was sent");
    const user = await call.em.findOne(User, { id: token.userId }, { refresh: true });
    if (user?.canonicalEmail !== canonical || user.isDeletionDue(call.clock.now()))
      throw olderAddress();
    if (token.kind === "verify-email") return eraseUnwanted(call, user);
    await endAccess(call, user.id, token.createdAt);
    await recordAudit(call, "auth.disowned", { userId: user.id });
    await queueResetAfter(call, user);
    return "access-ended";
  });
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
