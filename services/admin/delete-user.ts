import { eraseUser } from "../accounts/erase-user.ts";
import { type AuditDeps, recordAudit } from "../audit/record.ts";
import { userNotFound } from "./admin-user.ts";
import { assertRemovableAdmin } from "./guards.ts";

/** Erases a user at once; the audit log keeps the id, which no longer leads to anybody. @throws ServiceError NOT_FOUND, SELF_TARGETED, LAST_ADMIN, FORBIDDEN */
export async function deleteUser(call: AuditDeps, id: string): Promise<void> {
  await call.em.transactional(async () => {
    await assertRemovableAdmin(call, id, "delete");
    await recordAudit(call, "admin.user_deleted", { userId: id });
    if (!(await eraseUser(call, id))) throw userNotFound();
  });
}
