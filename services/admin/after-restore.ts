import { type AuditDeps, recordAudit } from "../audit/record.ts";
import { endAllTokens } from "../store/sessions.ts";

/**
 * Ends what a restored backup has open again: sessions that were revoked since, links that were used since. Signing keys go
 * too; the next start makes a new one. Passwords, factors and accounts stay as they were at the time of the backup.
 * @returns how many open sessions ended
 */
export async function closeAfterRestore(call: AuditDeps): Promise<number> {
  return call.em.transactional(async () => {
    const sessions = await endAllTokens(call, call.clock.now());
    await recordAudit(call, "admin.sessions_revoked", { userId: undefined, details: { sessions, restored: true } });
    return sessions;
  });
}
