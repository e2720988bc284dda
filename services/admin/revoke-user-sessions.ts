import { type AuditDeps, recordAudit } from "../audit/record.ts";
import { revokeSessions } from "../sessions/revoke-sessions.ts";
import { requireUser } from "./admin-user.ts";

/** Ends every session of a user. @returns how many ended. @throws ServiceError NOT_FOUND */
export async function revokeUserSessions(call: AuditDeps, userId: string): Promise<number> {
  return call.em.transactional(async () => {
    await requireUser(call, userId);
    const sessions = await revokeSessions(call, userId);
    await recordAudit(call, "admin.sessions_revoked", { userId, details: { sessions } });
    return sessions;
  });
}
