import type { Message } from "@bufbuild/protobuf";
import type { Interceptor, StreamRequest, UnaryRequest } from "@connectrpc/connect";
import { validate as isUuid } from "uuid";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { Access, AuditTarget } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { recordAudit } from "../audit/record.ts";
import { callOf } from "../call.ts";
import { reasonName, ServiceError } from "../platform/errors.ts";
import { type MethodPolicy, policyOf } from "../platform/policy.ts";

/** Errors of administrators' methods that are recorded. */
const ADMIN_DENIALS: ReadonlySet<Reason> = new Set([
  Reason.FORBIDDEN,
  Reason.IMPERSONATING,
  Reason.SELF_TARGETED,
  Reason.LAST_ADMIN,
  Reason.CONFLICT,
  Reason.EMAIL_TAKEN,
  Reason.NOT_FOUND,
]);
/** Errors of users' own methods that are recorded: an administrator impersonates, or is the last one and wants to leave. */
const OWN_DENIALS: ReadonlySet<Reason> = new Set([Reason.IMPERSONATING, Reason.LAST_ADMIN]);

/** Records who was denied what, and about whom, in a transaction of its own: the operation's is rolled back by then. */
export const auditDenials: Interceptor = (next) => async (req) => {
  const rules = policyOf(req.method);
  const isAdmins = rules?.policy.access === Access.ADMIN;
  if (!rules || !(isAdmins || rules.policy.forbidImpersonation)) return next(req);
  const denials = isAdmins ? ADMIN_DENIALS : OWN_DENIALS;
  try {
    return await next(req);
  } catch (error) {
    if (error instanceof ServiceError && denials.has(error.reason)) {
      const call = callOf({ values: req.contextValues });
      const { userId, ...other } = isAdmins ? targetOf(req, rules) : { userId: call.caller?.user.id };
      const details = { reason: reasonName(error.reason), rpc: req.method.name, ...other };
      await recordAudit(call, "admin.denied", { userId, outcome: "failure", details });
    }
    throw error;
  }
};

/** The target that the request names, if any. The request may not have been validated yet. */
function targetOf(req: UnaryRequest | StreamRequest, { target }: MethodPolicy): { userId?: string; emailId?: string } {
  if (req.stream || !target) return {};
  const id = (req.message as Message & Record<string, unknown>)[target.field.localName];
  if (typeof id !== "string" || !isUuid(id)) return {};
  return target.kind === AuditTarget.EMAIL ? { emailId: id } : { userId: id };
}
