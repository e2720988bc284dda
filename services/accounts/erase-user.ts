import { type AuditDeps, recordAudit } from "../audit/record.ts";
import type { Call } from "../call.ts";
import { clearLock } from "../lockout/attempts.ts";

/** Usage rows of one statement: whatever an account has used, each stays far below the longest that one may take. */
const BATCH = 50_000;

/**
 * Erases an account and everything that leads to its owner. What stays is counted or proved by the id alone: usage
 * rows, and the audit log's pseudonym. Joins the transaction it is called in.
 * @returns false when there is no such user
 */
export async function eraseUser(call: AuditDeps, userId: string): Promise<boolean> {
  await call.em.execute("select id from users where id = ? for update", [userId]); // no mail is queued meanwhile
  await call.em.execute("delete from emails where user_id = ?", [userId]);
  await anonymizeUsage(call, userId);
  const [user] = await call.em.execute<{ canonical_email: string }[]>(
    "delete from users where id = ? returning canonical_email",
    [userId],
  );
  if (!user) return false;
  await clearLock(call, { kind: "password", subject: user.canonical_email });
  await clearLock(call, { kind: "second-factor", subject: userId });
  await recordAudit(call, "user.erased", { userId });
  return true;
}

/** What the foreign key would do as well, in one statement with all the rest. */
async function anonymizeUsage({ em }: Pick<Call, "em">, userId: string): Promise<void> {
  for (let left = BATCH; left === BATCH; ) {
    const { affectedRows } = await em.execute<{ affectedRows: number }>(
      "update ai_usage set user_id = null where id in (select id from ai_usage where user_id = ? limit ?)",
      [userId, BATCH],
      "run",
    );
    left = affectedRows;
  }
}
