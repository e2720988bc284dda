import type { Interceptor } from "@connectrpc/connect";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { Access } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { callOf } from "../call.ts";
import { rulesOf } from "../policy.ts";
import { Refusal } from "../refusal.ts";
import { identify } from "../security/sessions.ts";

/** Identifies the caller of every method that is not public. */
export const authenticate: Interceptor = (next) => async (req) => {
  const rules = rulesOf(req.method);
  if (rules && rules.policy.access !== Access.PUBLIC) {
    const call = callOf({ values: req.contextValues });
    call.caller = await identify(call, bearerToken(req.header.get("authorization")));
  }
  return next(req);
};

/** Enforces the method's role. It runs before the request is validated, so a refusal reveals nothing about its contents. */
export const authorize: Interceptor = (next) => (req) => {
  const rules = rulesOf(req.method);
  if (rules && rules.policy.access !== Access.PUBLIC) {
    const { caller } = callOf({ values: req.contextValues });
    if (rules.policy.access === Access.ADMIN && caller?.user.role !== "admin") {
      throw new Refusal(Reason.FORBIDDEN, "This needs the role admin.");
    }
    if (caller?.actorId && rules.policy.forbidImpersonation) {
      throw new Refusal(Reason.IMPERSONATING, "This is not possible while impersonating a user.");
    }
  }
  return next(req);
};

/** The token of an Authorization header (RFC 6750 section 2.1). */
function bearerToken(header: string | null): string | undefined {
  return /^bearer +([\w.~+/-]+=*) *$/i.exec(header ?? "")?.[1];
}
