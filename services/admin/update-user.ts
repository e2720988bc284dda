import { type EmailAddress, emailTakenOr, readEmailAddress } from "../accounts/email-address.ts";
import { type AuditDeps, recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { invalidateOneTimeTokens } from "../crypto/one-time-tokens.ts";
import { clearLock } from "../lockout/attempts.ts";
import { queueEmail } from "../mail/queue.ts";
import { disableMfa } from "../mfa/disable-mfa.ts";
import { endImpersonations, revokeSessions } from "../sessions/sessions.ts";
import type { Role } from "../store/user.ts";
import { type AdminUser, readAdminUser, userNotFound } from "./admin-user.ts";
import { assertRemovableAdmin } from "./guards.ts";

/** What becomes of a user; what is undefined stays. */
export type UserChanges = {
  name?: string | undefined;
  email?: string | undefined;
  role?: Role | undefined;
  emailVerified?: boolean | undefined;
  /** Unlocks. */
  locked?: false | undefined;
  /** Takes the second factor off. */
  mfaEnabled?: false | undefined;
};

type Needs = AuditDeps & Pick<Call, "onComplete" | "mailWorker">;
type Present = { id: string; email: string; canonical_email: string; name: string; role: Role };

/**
 * Changes a user. A demotion ends the user's sessions, a promotion those of impersonators; a new address counts as
 * unproved unless told otherwise.
 * @throws ServiceError NOT_FOUND, EMAIL_TAKEN, SELF_TARGETED, LAST_ADMIN, FORBIDDEN, VALIDATION_FAILED
 */
export async function updateUser(call: Needs, id: string, changes: UserChanges): Promise<AdminUser> {
  const address = changes.email === undefined ? undefined : readEmailAddress(changes.email);
  try {
    return await call.em.transactional(async () => {
      if (changes.role === "user") await assertRemovableAdmin(call, id, "demote");
      const user = await lock(call, id);
      await change(call, user, changes, address);
      const fields = Object.entries(changes).flatMap(([field, value]) => (value === undefined ? [] : [field]));
      const details = { fields, ...(changes.role && { role: changes.role }) };
      await recordAudit(call, "admin.user_updated", { userId: id, details });
      return readAdminUser(call, id);
    });
  } catch (error) {
    throw emailTakenOr(error);
  }
}

async function lock(call: Needs, id: string): Promise<Present> {
  const [user] = await call.em.execute<Present[]>(
    `select id, email, canonical_email, name, role from users where id = ? for no key update`,
    [id],
  );
  if (!user) throw userNotFound();
  return user;
}

async function change(call: Needs, user: Present, changes: UserChanges, address?: EmailAddress): Promise<void> {
  const now = call.clock.now();
  const isNewAddress = address !== undefined && address.canonical !== user.canonical_email;
  const verified = changes.emailVerified ?? (isNewAddress ? false : undefined);
  await call.em.execute(
    `update users set name = coalesce(?, name), email = coalesce(?, email),
       canonical_email = coalesce(?, canonical_email), role = coalesce(?, role), updated_at = ?,
       email_verified_at = case ? when 'yes' then coalesce(email_verified_at, ?) when 'no' then null
         else email_verified_at end,
       was_verified = was_verified or email_verified_at is not null
     where id = ?`,
    [
      changes.name?.trim() ?? null,
      address?.stored ?? null,
      address?.canonical ?? null,
      changes.role ?? null,
      now,
      verified === undefined ? "" : verified ? "yes" : "no",
      now,
      user.id,
    ],
  );
  if (isNewAddress) await onEmailChanged(call, user, address.stored);
  const changed = {
    ...user,
    name: changes.name?.trim() ?? user.name,
    email: address?.stored ?? user.email,
    canonical_email: address?.canonical ?? user.canonical_email,
  };
  if (changes.locked === false) await unlock(call, changed);
  if (changes.mfaEnabled === false) await disableMfa(call, user.id, { audit: false, notify: true });
  if (user.role === "admin" && changes.role === "user") await revokeSessions(call, user.id);
  if (user.role === "user" && changes.role === "admin") await endImpersonations(call, user.id); // nobody impersonates an administrator
}

/** What was mailed to the old address is void, its wrong passwords are forgotten, and it is told. */
async function onEmailChanged(call: Needs, user: Present, newEmail: string): Promise<void> {
  await invalidateOneTimeTokens(call, user.id);
  await clearLock(call, { kind: "password", subject: user.canonical_email });
  const variables = { name: user.name, newEmail };
  await queueEmail(call, { userId: user.id, to: user.email, template: "email-changed", variables });
}

async function unlock(call: Needs, user: Present): Promise<void> {
  await clearLock(call, { kind: "password", subject: user.canonical_email });
  await clearLock(call, { kind: "second-factor", subject: user.id });
}
