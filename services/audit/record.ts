import type { JsonObject } from "@bufbuild/protobuf";
import type { SystemCall } from "../call.ts";
import { responsibleId } from "../principal.ts";
import { type AuditEventRow, insertAuditEvent } from "../store/audit-events.ts";
import { newId } from "../store/ids.ts";

/** Audited events, named `domain.action`. */
export type AuditedEvent =
  | (
      | "auth.register"
      | "auth.login"
      | "auth.login_failed"
      | "auth.locked"
      | "auth.logout"
      | "auth.refresh_reused"
      | "auth.confirmed"
      | "auth.passkey_counter_fell"
      | "auth.external_failed"
      | "auth.disowned"
      | "auth.email_code_requested"
    )
  | ("auth.email_verified" | "auth.password_reset_requested" | "auth.password_reset")
  | (
      | "auth.mfa_setup"
      | "auth.mfa_verified"
      | "auth.mfa_failed"
      | "auth.mfa_disabled"
      | "auth.backup_code_used"
    )
  | (
      | "user.profile_updated"
      | "user.password_changed"
      | "user.email_changed"
      | "user.session_revoked"
    )
  | ("user.passkey_added" | "user.passkey_removed")
  | ("user.identity_added" | "user.identity_removed" | "user.taken_back" | "user.device_forgotten")
  | ("user.password_set" | "user.password_removed" | "user.second_factor_changed")
  | ("user.api_key_created" | "user.api_key_revoked")
  | "user.budget_exceeded"
  | ("admin.budget_set" | "admin.budget_deleted" | "admin.budget_adjusted")
  | ("user.deletion_requested" | "user.exported" | "user.restored" | "user.erased")
  | ("admin.user_updated" | "admin.user_deleted" | "admin.sessions_revoked" | "admin.impersonated")
  | ("admin.user_invited" | "admin.access_reset")
  | ("admin.user_suspended" | "admin.user_reinstated")
  | ("admin.api_key_updated" | "admin.service_account_created")
  | ("admin.webhook_changed" | "admin.webhook_replayed")
  | ("admin.email_retried" | "admin.keys_withdrawn" | "admin.denied");

/** Data of an event, in addition to what the call provides. */
export type AuditData = {
  /** The user whom the event concerns. */
  userId: string | undefined;
  /** The user who caused it. By default the caller or, for a success without a caller, `userId`. */
  actorId?: string;
  outcome?: "success" | "failure";
  /** Must not contain secrets. */
  details?: JsonObject;
};

/** The row for an event, for a statement that inserts it together with its cause. */
export function auditRow(
  call: Pick<SystemCall, "clock" | "client" | "requestId" | "principal">,
  event: AuditedEvent,
  { userId, actorId, outcome = "success", details = {} }: AuditData,
): AuditEventRow {
  const now = call.clock.now();
  const isSelfCaused = outcome === "success" && !event.startsWith("admin.");
  const actor = actorId ?? responsibleId(call.principal) ?? (isSelfCaused ? userId : undefined);
  return {
    id: newId(now),
    event,
    outcome,
    userId: userId ?? null,
    actorId: actor ?? null,
    ip: call.client.address,
    userAgent: call.client.agent,
    requestId: call.requestId,
    details,
    createdAt: now,
  };
}

/**
 * Records an event. Inside a transaction it is committed together with its cause, otherwise
 * immediately.
 */
export async function recordAudit(
  call: SystemCall,
  event: AuditedEvent,
  data: AuditData,
): Promise<void> {
  await insertAuditEvent(call, auditRow(call, event, data));
}
