import type { Interceptor, StreamRequest, UnaryRequest } from "@connectrpc/connect";
import { validate as isUuid } from "uuid";
import { AdminService } from "../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { Access } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { recordAudit } from "../audit/record.ts";
import { callOf } from "../call.ts";
import { reasonName, ServiceError } from "../platform/errors.ts";
import { policyOf } from "../platform/policy.ts";

/** Refusals of an administrator's method that are recorded. */
const ADMIN_DENIALS: ReadonlySet<Reason> = new Set([
  Reason.FORBIDDEN,
  Reason.IMPERSONATING,
  Reason.SELF_TARGETED,
  Reason.LAST_ADMIN,
  Reason.CONFLICT,
  Reason.EMAIL_TAKEN,
  Reason.NOT_FOUND,
]);
/** Those recorded on users' own methods too: an administrator is impersonating, or is the last one and wants to go. */
const OWN_DENIALS: ReadonlySet<Reason> = new Set([Reason.IMPERSONATING, Reason.LAST_ADMIN]);

/** Records who was refused what, and about whom, in a transaction of its own: the operation's is rolled back by then. */
export const auditDenials: Interceptor = (next) => async (req) => {
  const rules = policyOf(req.method);
  const isAdmins = rules?.policy.access === Access.ADMIN;
  if (!isAdmins && !rules?.policy.forbidImpersonation) return next(req);
  const denials = isAdmins ? ADMIN_DENIALS : OWN_DENIALS;
  try {
    return await next(req);
  } catch (error) {
    if (error instanceof ServiceError && denials.has(error.reason)) {
      const call = callOf({ values: req.contextValues });
      const { userId, ...named } = isAdmins ? targetOf(req) : { userId: call.caller?.user.id };
      const details = { reason: reasonName(error.reason), rpc: req.method.name, ...named };
      await recordAudit(call, "admin.denied", { userId, outcome: "failure", details });
    }
    throw error;
  }
};

/** What an administrator's request names, if anything: it may not have been validated yet. */
function targetOf(req: UnaryRequest | StreamRequest): { userId?: string; emailId?: string } {
  if (req.stream) return {};
  const { id, userId } = req.message as unknown as { id?: unknown; userId?: unknown };
  const named = userId ?? id;
  if (typeof named !== "string" || !isUuid(named)) return {};
  return req.method === AdminService.method.retryEmail ? { emailId: named } : { userId: named };
}
