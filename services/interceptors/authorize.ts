import type { Interceptor } from "@connectrpc/connect";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { Access } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { callOf } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";
import { policyOf } from "../platform/policy.ts";
import { admittedKey } from "../platform/server-hooks.ts";
import { identify } from "../sessions/identify.ts";

/** Loads the session of the access token that the port has verified, on every method that is not public. */
export const authenticate: Interceptor = (next) => async (req) => {
  const rules = policyOf(req.method);
  if (rules && rules.policy.access !== Access.PUBLIC) {
    const call = callOf({ values: req.contextValues });
    call.caller = await identify(call, req.contextValues.get(admittedKey)?.claims);
  }
  return next(req);
};

/** Enforces the method's role. It runs before the request is validated, so an error reveals nothing about its contents. */
export const authorize: Interceptor = (next) => (req) => {
  const rules = policyOf(req.method);
  if (rules && rules.policy.access !== Access.PUBLIC) {
    const { caller } = callOf({ values: req.contextValues });
    if (rules.policy.access === Access.ADMIN && caller?.user.role !== "admin") {
      throw new ServiceError(Reason.FORBIDDEN, "This needs the role admin.");
    }
    if (caller?.actorId && rules.policy.forbidImpersonation) {
      throw new ServiceError(Reason.IMPERSONATING, "This is not possible while impersonating a user.");
    }
  }
  return next(req);
};
