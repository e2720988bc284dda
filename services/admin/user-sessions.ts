import { type AuditDeps, recordAudit } from "../audit/record.ts";
import type { SignedInCall } from "../call.ts";
import { type ListedSession, listOpenSessions, revokeSessions } from "../store/sessions.ts";
import { lockUser } from "../store/users.ts";
import { assertStillAdmin, readAdminUser, userNotFound } from "./guards.ts";

/** Lists a user's open sessions, newest first. @throws ServiceError NOT_FOUND */
export async function listUserSessions(
  call: Pick<SignedInCall, "em" | "clock">,
  userId: string,
): Promise<ListedSession[]> {
  await readAdminUser(call, userId);
  return listOpenSessions(call, userId, call.clock.now());
}

/** Ends every session of a user. @returns how many ended. @throws ServiceError NOT_FOUND */
export async function revokeUserSessions(call: AuditDeps, userId: string): Promise<number> {
  return call.em.transactional(async () => {
    if (!(await lockUser(call, userId))) throw userNotFound();
    await assertStillAdmin(call);
    const sessions = await revokeSessions(call, userId);
    await recordAudit(call, "admin.sessions_revoked", { userId, details: { sessions } });
    return sessions;
  });
}
