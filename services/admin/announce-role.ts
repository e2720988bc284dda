import type { SystemCall } from "../call.ts";
import { queueEmails } from "../mail/queue.ts";
import { userOf } from "../principal.ts";
import type { Recipient } from "../store/emails.ts";
import { findAdmins, type Role } from "../store/users.ts";

type Changed = Recipient & { role: Role };

/**
 * Notifies a user and all administrators of the user's new role by e-mail. Call it within the
 * transaction of the change and after the change, so that no change of role goes unnoticed.
 */
export async function announceRole(call: SystemCall, user: Changed): Promise<void> {
  await queueEmails(call, [user], "role-changed", { role: user.role });
  await notifyAdmins(call, user);
}

/** Notifies all administrators, except the user, of a user's role. */
export async function notifyAdmins(call: SystemCall, { id, email, role }: Changed): Promise<void> {
  const actor = userOf(call.principal)?.email ?? "operator";
  const admins = (await findAdmins(call)).filter((admin) => admin.id !== id);
  await queueEmails(call, admins, "administrators-changed", { actor, email, role });
}
