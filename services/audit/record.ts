import type { JsonObject } from "@bufbuild/protobuf";
import type { Call } from "../call.ts";
import { type AuditEventRow, insertAuditEvent } from "../store/audit-events.ts";
import { newId } from "../store/store.ts";

/** Audited events, named `domain.action`. */
export type AuditedEvent =
  | `auth.${"register" | "login" | "login_failed" | "locked" | "logout" | "refresh_reused" | "email_verified"}`
  | `auth.${"password_reset_requested" | "password_reset" | "backup_code_used"}`
  | `auth.mfa_${"setup" | "verified" | "failed" | "disabled"}`
  | `user.${"profile_updated" | "password_changed" | "email_changed" | "session_revoked"}`
  | `user.${"deletion_requested" | "exported" | "restored" | "erased"}`
  | `admin.${"user_updated" | "user_deleted" | "sessions_revoked" | "impersonated" | "email_retried" | "denied"}`;

/** Data of an event beside the call that it happened in. */
export type AuditData = {
  /** The user whom the event concerns. */
  userId: string | undefined;
  /** The user who caused it. Default: the caller or, for a success without a caller, `userId`. */
  actorId?: string;
  outcome?: "success" | "failure";
  /** Never a secret. */
  details?: JsonObject;
};

export type AuditDeps = Pick<Call, "em" | "clock" | "client" | "requestId" | "caller">;

/** The row of an event, for a statement that inserts it together with its cause. */
export function auditRow(
  call: Omit<AuditDeps, "em">,
  event: AuditedEvent,
  { userId, actorId, outcome = "success", details = {} }: AuditData,
): AuditEventRow {
  const now = call.clock.now();
  const isSelfCaused = outcome === "success" && !event.startsWith("admin.");
  const actor = actorId ?? call.caller?.actorId ?? call.caller?.user.id ?? (isSelfCaused ? userId : undefined);
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

/** Records an event. Inside a transaction it is committed together with its cause, otherwise at once. */
export async function recordAudit(call: AuditDeps, event: AuditedEvent, data: AuditData): Promise<void> {
  await insertAuditEvent(call, auditRow(call, event, data));
}
