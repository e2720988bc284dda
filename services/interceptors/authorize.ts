import type { Interceptor } from "@connectrpc/connect";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { Access } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { callOf } from "../call.ts";
import { ServiceError } from "../platform/errors.ts";
import { policyOf } from "../platform/policy.ts";
import type { Limits } from "../rate-limit/limiter.ts";
import { identify } from "../sessions/identify.ts";
import { readAccessToken } from "../sessions/tokens.ts";
import { countedByUser } from "./rate-limit.ts";

/**
 * Identifies the caller of every method that is not public, and counts the call meanwhile if their session was open the
 * last time: its trips to PostgreSQL and Redis take the time of one. Nobody else is counted so soon, since whoever has
 * the token of a session that has ended must not use up its owner's limits.
 */
export function authenticate(limits: Limits | undefined): Interceptor {
  return (next) => async (req) => {
    const rules = policyOf(req.method);
    if (rules && rules.policy.access !== Access.PUBLIC) {
      const call = callOf({ values: req.contextValues });
      const token = bearerToken(req.header.get("authorization"));
      const claims = token ? await readAccessToken(call, token) : undefined;
      const counted = claims && call.findSession.wasOpen(claims.sessionId) && countedByUser(rules, claims.userId);
      [call.caller, call.standing] = await Promise.all([
        identify(call, claims),
        counted ? limits?.take(counted) : undefined,
      ]);
    }
    return next(req);
  };
}

/** Enforces the method's role. It runs before the request is validated, so a refusal reveals nothing about its contents. */
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

/** The token of an Authorization header (RFC 6750 section 2.1). */
function bearerToken(header: string | null): string | undefined {
  return /^bearer +([\w.~+/-]+=*) *$/i.exec(header ?? "")?.[1];
}
