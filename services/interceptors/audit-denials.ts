import type { Interceptor, StreamRequest, UnaryRequest } from "@connectrpc/connect";
import { validate as isUuid } from "uuid";
import { Reason, ReasonSchema } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { Access } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { recordAudit } from "../audit.ts";
import { callOf } from "../call.ts";
import { rulesOf } from "../policy.ts";
import { Refusal } from "../refusal.ts";

/** Reasons for which somebody is kept from an administrator's deed, or from one that impersonation forbids. */
const DENIALS: ReadonlySet<Reason> = new Set([
  Reason.FORBIDDEN,
  Reason.IMPERSONATING,
  Reason.SELF_TARGETED,
  Reason.LAST_ADMIN,
  Reason.CONFLICT,
  Reason.EMAIL_TAKEN,
]);

/** Records who was refused what, and about whom. The deed's own transaction is gone by then: this is one of its own. */
export const auditDenials: Interceptor = (next) => async (req) => {
  const rules = rulesOf(req.method);
  if (rules?.policy.access !== Access.ADMIN && !rules?.policy.forbidImpersonation) return next(req);
  try {
    return await next(req);
  } catch (error) {
    if (error instanceof Refusal && DENIALS.has(error.reason)) {
      const call = callOf({ values: req.contextValues });
      const userId = rules.policy.access === Access.ADMIN ? targetOf(req) : call.caller?.user.id;
      const details = { reason: ReasonSchema.value[error.reason]?.localName, rpc: req.method.name };
      await recordAudit(call, "admin.denied", { userId, outcome: "failure", details });
    }
    throw error;
  }
};

/** The user that a request names, if any: it may not have been validated yet. */
function targetOf(req: UnaryRequest | StreamRequest): string | undefined {
  if (req.stream) return undefined;
  const { id, userId } = req.message as unknown as { id?: unknown; userId?: unknown };
  const named = userId ?? id;
  return typeof named === "string" && isUuid(named) ? named : undefined;
}
