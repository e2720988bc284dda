import { emailTaken, readEmailAddress } from "../accounts/email-address.ts";
import { assertRecentAdminSignIn, assertStillAdmin, confirmCaller } from "../accounts/guards.ts";
import { recordAudit } from "../audit/record.ts";
import type { SessionCall } from "../call.ts";
import { queueEmail } from "../mail/queue.ts";
import { lifetimeOf } from "../mail/templates.ts";
import type { AdminUser } from "../store/admin-users.ts";
import { newId } from "../store/ids.ts";
import { issueOneTimeToken } from "../store/one-time-tokens.ts";
import { insertInvited, lockAdminsAnd, type Role } from "../store/users.ts";
import { notifyAdmins } from "./announce-role.ts";
import { readAdminUser } from "./manage-user.ts";

/** Whom to invite, and what the caller proves for an administrator. */
type Invitation = {
  email: string;
  name: string;
  role?: string | undefined;
  password?: string | undefined;
};

/**
 * Creates an account without a password and mails a token that sets one. A new administrator is
 * announced to the others.
 * @throws ServiceError REAUTHENTICATION_REQUIRED, INVALID_CURRENT_PASSWORD, ACCOUNT_LOCKED,
 * EMAIL_TAKEN, FORBIDDEN, VALIDATION_FAILED
 */
export async function inviteUser(call: SessionCall, invitation: Invitation): Promise<AdminUser> {
  const address = readEmailAddress(invitation.email);
  const role = (invitation.role ?? "user") as Role;
  assertRecentAdminSignIn(call);
  if (role === "admin") await confirmCaller(call, invitation);
  const createdAt = call.clock.now();
  const { stored: email, canonical: canonicalEmail } = address;
  const user = { id: newId(createdAt), email, canonicalEmail, name: invitation.name, role };
  const { noPassword: passwordHash } = call.passwords;
  return call.em.transactional(async () => {
    await lockAdminsAnd(call, call.principal.user.id);
    await assertStillAdmin(call);
    if (!(await insertInvited(call, { ...user, passwordHash, createdAt }))) throw emailTaken();
    const { invitationTtlMs } = call.config;
    const token = await issueOneTimeToken(call, "invitation", user, invitationTtlMs);
    const lifetime = lifetimeOf(invitationTtlMs);
    await queueEmail(call, user, "invitation", { lifetime }, token.id);
    await recordAudit(call, "admin.user_invited", { userId: user.id, details: { role } });
    if (role === "admin") await notifyAdmins(call, user);
    return readAdminUser(call, user.id);
  });
}
