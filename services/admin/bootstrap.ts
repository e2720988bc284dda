import { readEmailAddress } from "../accounts/email-address.ts";
import { type AuditDeps, recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { invalidateOneTimeTokens } from "../crypto/one-time-tokens.ts";
import { clearLock } from "../lockout/attempts.ts";
import { disableMfa } from "../mfa/disable-mfa.ts";
import { endImpersonations, revokeSessions } from "../sessions/sessions.ts";
import { newId } from "../store/ids.ts";
import { User } from "../store/user.ts";

type Needs = AuditDeps & Pick<Call, "passwords" | "onComplete" | "mailWorker">;

/**
 * Makes the first administrator, or promotes the account that has the address. An account whose address was never
 * confirmed may have been registered by anybody beforehand: it gets the password, and whoever used it is signed out.
 * Idempotent: an administrator stays as they are, password included; processes that start together make one.
 * @returns whether the password is the account's
 */
export async function bootstrapAdmin(call: Needs, admin: { email: string; password: string }): Promise<boolean> {
  const address = readEmailAddress(admin.email, "ADMIN_EMAIL");
  const existing = await call.em.findOne(User, { canonicalEmail: address.canonical });
  if (existing?.role === "admin") return false;
  const now = call.clock.now();
  const passwordHash = await call.passwords.hash(admin.password);
  return call.em.transactional(async () => {
    // xmax = 0 marks a row that was inserted, not updated
    const [row] = await call.em.execute<{ id: string; is_made: boolean; has_password: boolean }[]>(
      `insert into users as u (id, email, canonical_email, name, role, password_hash, password_changed_at,
         email_verified_at, terms_accepted_at, created_at, updated_at)
       values (?, ?, ?, 'Administrator', 'admin', ?, ?, ?, ?, ?, ?)
       on conflict (canonical_email) do update set role = 'admin', updated_at = excluded.updated_at,
         password_hash = case when u.email_verified_at is null then excluded.password_hash else u.password_hash end,
         password_changed_at =
           case when u.email_verified_at is null then excluded.password_changed_at else u.password_changed_at end,
         email_verified_at = coalesce(u.email_verified_at, excluded.email_verified_at)
         where u.role <> 'admin' returning u.id, u.xmax = 0 as is_made, u.password_hash = ? as has_password`,
      [newId(now), address.stored, address.canonical, passwordHash, now, now, now, now, now, passwordHash],
    );
    if (!row) return false;
    const isTakenOver = row.has_password && !row.is_made;
    if (isTakenOver) await revokeAllAccess(call, row.id, address.canonical);
    else if (!row.is_made) await endImpersonations(call, row.id);
    const details = { role: "admin", ...(isTakenOver && { takenOver: true }) };
    await recordAudit(call, "admin.user_updated", { userId: row.id, details });
    return row.has_password;
  });
}

/** Ends whatever access somebody who knew the old password may have prepared. */
async function revokeAllAccess(call: Needs, userId: string, canonicalEmail: string): Promise<void> {
  await revokeSessions(call, userId);
  await invalidateOneTimeTokens(call, userId);
  await disableMfa(call, userId, { audit: false, notify: false });
  await clearLock(call, { kind: "password", subject: canonicalEmail });
  await clearLock(call, { kind: "second-factor", subject: userId });
}
