import type { Call } from "../call.ts";
import { newId } from "../store/ids.ts";

/** Everything that is audited: past facts, named `domain.action`. */
export type AuditedEvent =
  | "auth.register"
  | "auth.login"
  | "auth.login_failed"
  | "auth.locked"
  | "auth.logout"
  | "auth.refresh_reused"
  | "auth.email_verified"
  | "auth.password_reset_requested"
  | "auth.password_reset"
  | "auth.mfa_setup"
  | "auth.mfa_verified"
  | "auth.mfa_failed"
  | "auth.mfa_disabled"
  | "auth.backup_code_used"
  | "user.profile_updated"
  | "user.password_changed"
  | "user.email_changed"
  | "user.session_revoked"
  | "user.deletion_requested"
  | "user.restored"
  | "user.erased"
  | "admin.user_updated"
  | "admin.user_deleted"
  | "admin.sessions_revoked"
  | "admin.impersonated"
  | "admin.email_retried"
  | "admin.denied";

/** What is known about an event beside the call it happened in. */
export type AuditData = {
  /** Whom it happened to. */
  userId: string | undefined;
  /** Who did it, where that is not the caller or, for a success without one, the user. */
  actorId?: string;
  outcome?: "success" | "failure";
  /** Never a secret. */
  details?: Record<string, unknown>;
};

/** What recording an event needs. */
export type AuditDeps = Pick<Call, "em" | "clock" | "client" | "requestId" | "caller">;

/** An event as its row, for a statement that records it together with its effect. */
export function auditRow(
  call: Omit<AuditDeps, "em">,
  event: AuditedEvent,
  { userId, actorId, outcome = "success", details = {} }: AuditData,
) {
  const now = call.clock.now();
  const ownDoing = outcome === "success" && !event.startsWith("admin."); // nobody administers their own account
  const actor = actorId ?? call.caller?.actorId ?? call.caller?.user.id ?? (ownDoing ? userId : undefined);
  return {
    id: newId(now),
    event,
    outcome,
    user_id: userId ?? null,
    actor_id: actor ?? null,
    ip: call.client.address,
    user_agent: call.client.agent,
    request_id: call.requestId,
    details,
    created_at: now,
  };
}

/**
 * Records an event: in the transaction it is called in, together with its effect; else on its own, at once.
 * The row waits in `audit_unsealed` for the chain, so that writers never wait for each other.
 */
export async function recordAudit(call: AuditDeps, event: AuditedEvent, facts: AuditData): Promise<void> {
  const row = auditRow(call, event, facts);
  await call.em.execute(
    `with recorded as (
       insert into audit_events
         (id, event, outcome, user_id, actor_id, ip, user_agent, request_id, details, created_at)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) returning id)
     insert into audit_unsealed (event_id) select id from recorded`,
    Object.values({ ...row, details: JSON.stringify(row.details) }),
  );
}
