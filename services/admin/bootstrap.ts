import { recordAudit } from "../audit.ts";
import type { Call } from "../call.ts";
import { readEmailAddress } from "../security/email-address.ts";
import { endImpersonations } from "../security/sessions.ts";
import { newId } from "../store/ids.ts";
import { User } from "../store/user.ts";

type Needs = Pick<Call, "em" | "clock" | "passwords" | "client" | "requestId" | "caller">;

/**
 * Makes the first administrator, or promotes the account that has the address. Idempotent: an administrator stays as
 * they are, password included; processes that start together make one.
 * @returns whether the account is new, and the password its own
 */
export async function bootstrapAdmin(call: Needs, admin: { email: string; password: string }): Promise<boolean> {
  const address = readEmailAddress(admin.email, "ADMIN_EMAIL");
  const existing = await call.em.findOne(User, { canonicalEmail: address.canonical });
  if (existing?.role === "admin") return false;
  const now = call.clock.now();
  const passwordHash = await call.passwords.hash(admin.password);
  return call.em.transactional(async () => {
    const [row] = await call.em.execute<{ id: string; made: boolean }[]>(
      `insert into users as u (id, email, canonical_email, name, role, password_hash, password_changed_at,
         email_verified_at, terms_accepted_at, created_at, updated_at)
       values (?, ?, ?, 'Administrator', 'admin', ?, ?, ?, ?, ?, ?)
       on conflict (canonical_email) do update set role = 'admin', updated_at = excluded.updated_at
         where u.role <> 'admin' returning u.id, u.xmax = 0 as made`,
      [newId(now), address.stored, address.canonical, passwordHash, now, now, now, now, now],
    );
    if (row && !row.made) await endImpersonations(call, row.id);
    if (row) await recordAudit(call, "admin.user_updated", { userId: row.id, details: { role: "admin" } });
    return row?.made ?? false;
  });
}
