import { LockMode } from "@mikro-orm/core";
import { type AuditDeps, recordAudit } from "../audit/record.ts";
import { clearLock } from "../store/attempts.ts";
import { deleteEmails } from "../store/emails.ts";
import { anonymizeUsage, User } from "../store/users.ts";

/** Usage rows of one statement, so that each takes far less than the longest time that a statement may take. */
const BATCH_SIZE = 50_000;

/**
 * Erases an account and all personal data. Usage rows stay without a user, audit events stay with the id as pseudonym.
 * Joins the caller's transaction.
 * @returns false if there is no such user.
 */
export async function eraseUser(call: AuditDeps, userId: string): Promise<boolean> {
  const lockMode = LockMode.PESSIMISTIC_WRITE; // no mail is queued meanwhile: its foreign key waits for this lock
  const user = await call.em.findOne(User, { id: userId }, { lockMode });
  if (!user) return false;
  await deleteEmails(call, userId);
  while ((await anonymizeUsage(call, userId, BATCH_SIZE)) === BATCH_SIZE); // the foreign key's action would be one long statement
  await call.em.nativeDelete(User, { id: userId });
  await clearLock(call, { kind: "password", subject: user.canonicalEmail });
  await clearLock(call, { kind: "second-factor", subject: userId });
  await recordAudit(call, "user.erased", { userId });
  return true;
}
