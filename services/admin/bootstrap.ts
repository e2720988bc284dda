import { v7 as uuid } from "uuid";
import { recordAudit } from "../audit.ts";
import type { Call } from "../call.ts";
import { readEmailAddress } from "../security/email-address.ts";
import { User } from "../store/user.ts";

type Needs = Pick<Call, "em" | "clock" | "passwords" | "client" | "requestId" | "caller">;

/**
 * Makes the first administrator, or promotes the account that has the address. Idempotent: an administrator stays as
 * they are, password included; processes that start together make one.
 */
export async function bootstrapAdmin(call: Needs, admin: { email: string; password: string }): Promise<void> {
  const address = readEmailAddress(admin.email, "ADMIN_EMAIL");
  const existing = await call.em.findOne(User, { canonicalEmail: address.canonical });
  if (existing?.role === "admin") return;
  const now = call.clock.now();
  const passwordHash = existing ? "" : await call.passwords.hash(admin.password);
  await call.em.transactional(async () => {
    const [row] = existing
      ? await call.em.execute<{ id: string }[]>(
          "update users set role = 'admin', updated_at = ? where id = ? and role <> 'admin' returning id",
          [now, existing.id],
        )
      : await call.em.execute<{ id: string }[]>(
          `insert into users (id, email, canonical_email, name, role, password_hash, password_changed_at,
             email_verified_at, terms_accepted_at, created_at, updated_at)
           values (?, ?, ?, 'Administrator', 'admin', ?, ?, ?, ?, ?, ?)
           on conflict (canonical_email) do nothing returning id`,
          [uuid({ msecs: now.getTime() }), address.stored, address.canonical, passwordHash, now, now, now, now, now],
        );
    if (row) await recordAudit(call, "admin.user_updated", { userId: row.id, details: { role: "admin" } });
  });
}
