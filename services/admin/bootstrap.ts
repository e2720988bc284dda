import { readEmailAddress } from "../accounts/email-address.ts";
import { endOtherAccess } from "../accounts/reset-access.ts";
import { recordAudit } from "../audit/record.ts";
import type { Call, SystemCall } from "../call.ts";
import { upsertAdmin } from "../store/admin-users.ts";
import { clearLocks } from "../store/attempts.ts";
import { newId } from "../store/ids.ts";
import { endImpersonations } from "../store/sessions.ts";
import { User } from "../store/users.ts";
import { announceRole, notifyAdmins } from "./announce-role.ts";

type Deps = SystemCall & Pick<Call, "passwords">;

/**
 * Creates an administrator, or promotes the account with this address. An account whose address was
 * never verified may have been registered by someone else: its password is replaced and all access
 * to it is revoked. Idempotent: an existing administrator is left unchanged, and processes that
 * start together create only one.
 * @returns whether the account now has this password
 */
export async function bootstrapAdmin(
  call: Deps,
  admin: { email: string; password: string },
): Promise<boolean> {
  const address = readEmailAddress(admin.email, "ADMIN_EMAIL");
  const existing = await call.em.findOne(User, { canonicalEmail: address.canonical });
  if (existing?.role === "admin") return false;
  const now = call.clock.now();
  const passwordHash = await call.passwords.hash(admin.password);
  return call.em.transactional(async () => {
    const { stored: email, canonical: canonicalEmail } = address;
    const account = await upsertAdmin(
      call,
      { id: newId(now), email, canonicalEmail, passwordHash },
      now,
    );
    if (!account) return false;
    const isTakenOver = account.hasPassword && !account.isCreated;
    if (isTakenOver) {
      await endOtherAccess(call, account.id);
      await clearLocks(call, { id: account.id, canonicalEmail }, "operator");
    } else if (!account.isCreated) await endImpersonations(call, account.id);
    const announce = account.isCreated ? notifyAdmins : announceRole;
    await announce(call, { ...account, role: "admin" });
    const details = { role: "admin", ...(isTakenOver && { takenOver: true }) };
    await recordAudit(call, "admin.user_updated", { userId: account.id, details });
    return account.hasPassword;
  });
}

/**
 * Creates or promotes the configured administrator if there is none, so that an administrator who
 * was demoted stays demoted.
 */
export async function bootstrapFirstAdmin(
  call: Deps & Pick<Call, "log">,
  admin: { email: string; password: string },
) {
  const admins = await call.em.count(User, { role: "admin" });
  if (admins === 0) await bootstrapAdmin(call, admin);
  else call.log.info({ admins }, "ADMIN_EMAIL ignored: there already is an administrator");
}
