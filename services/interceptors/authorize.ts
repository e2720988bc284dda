import type { Interceptor, StreamRequest, UnaryRequest } from "@connectrpc/connect";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { Access, AuditTarget, type Policy } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { recordAudit } from "../audit/record.ts";
import { callOf } from "../call.ts";
import type { Config } from "../platform/config/config.ts";
import { admittedKey } from "../platform/gate/server-hooks.ts";
import { reasonName, ServiceError, statusOf } from "../platform/rpc/errors.ts";
import { type MethodPolicy, policyOf } from "../platform/rpc/policy.ts";
import type { SessionPrincipal } from "../principal.ts";
import { identify } from "../sessions/check-session.ts";
import { textOf } from "./text-field.ts";

/**
 * HTTP statuses of errors that are recorded for administrators' methods: forbidden, not found,
 * conflict.
 */
const ADMIN_DENIALS = [403, 404, 409];
/**
 * Errors that are recorded for users' own methods: impersonation, and deleting the account of the last
 * administrator.
 */
const OWN_DENIALS: ReadonlySet<Reason> = new Set([Reason.IMPERSONATING, Reason.LAST_ADMIN]);

/**
 * On every method that is not public, loads the session of the access token that the port has verified
 * and enforces the required role. Runs before the request is validated, so that an error reveals
 * nothing about the request. Denials are recorded in their own transaction, since the operation's is
 * rolled back.
 */
export const authorize: Interceptor = (next) => async (req) => {
  const policy = policyOf(req.method);
  if (!policy || policy.access === Access.PUBLIC) return next(req);
  const call = callOf({ values: req.contextValues });
  const { claims, onSessionEnded } = req.contextValues.get(admittedKey) ?? {};
  const principal = await identify(call, claims, onSessionEnded);
  call.principal = principal;
  try {
    assertAllowed(policy, principal, call.config);
    return await next(req);
  } catch (error) {
    if (error instanceof ServiceError && isRecorded(policy, error)) {
      const isAdmins = policy.access === Access.ADMIN;
      const { userId, ...other } = isAdmins ? targetOf(req, policy) : { userId: principal.user.id };
      const details = { reason: reasonName(error.reason), rpc: req.method.name, ...other };
      await recordAudit(call, "admin.denied", { userId, outcome: "failure", details });
    }
    throw error;
  }
};

/** @throws ServiceError FORBIDDEN, IMPERSONATING, MFA_REQUIRED */
function assertAllowed(
  { access, forbidImpersonation }: Policy,
  { user, actorId, usedSecondFactor }: SessionPrincipal,
  { requireAdminMfa }: Pick<Config, "requireAdminMfa">,
): void {
  if (access === Access.ADMIN && user.role !== "admin") {
    throw new ServiceError(Reason.FORBIDDEN, "This requires the role admin.");
  }
  if (actorId && forbidImpersonation) {
    throw new ServiceError(
      Reason.IMPERSONATING,
      "This is not possible while impersonating a user.",
    );
  }
  if (access === Access.ADMIN && requireAdminMfa && !usedSecondFactor) {
    const message = "Administrators must sign in with a second factor.";
    throw new ServiceError(
      Reason.MFA_REQUIRED,
      `${message} Please set it up, then sign in again with a code.`,
    );
  }
}

function isRecorded({ access, forbidImpersonation }: Policy, { reason }: ServiceError): boolean {
  if (access === Access.ADMIN) return ADMIN_DENIALS.includes(statusOf(reason).status);
  return forbidImpersonation && OWN_DENIALS.has(reason);
}

/** The target named in the request, if any. The request may not have been validated yet. */
function targetOf(
  req: UnaryRequest | StreamRequest,
  { target }: MethodPolicy,
): { userId?: string; emailId?: string } {
  const id = textOf(req, target);
  if (id === undefined || !/^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i.test(id)) return {};
  return target?.kind === AuditTarget.EMAIL ? { emailId: id } : { userId: id };
}
