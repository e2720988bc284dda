import type { Interceptor, StreamRequest, UnaryRequest } from "@connectrpc/connect";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import {
  Access,
  ApiKeys,
  AuditTarget,
  type Policy,
} from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { recordAudit } from "../audit/record.ts";
import { type Call, callOf } from "../call.ts";
import type { Config } from "../platform/config/config.ts";
import { type Admitted, admittedKey, assertGateway } from "../platform/gate/server-hooks.ts";
import { reasonName, ServiceError, statusOf } from "../platform/rpc/errors.ts";
import { type MethodPolicy, policyOf } from "../platform/rpc/policy.ts";
import type { SessionPrincipal, UserPrincipal } from "../principal.ts";
import { type FindUsableKey, identifyKey } from "../sessions/check-api-key.ts";
import { type FindSession, identifySession } from "../sessions/check-session.ts";
import { textOf } from "./text-field.ts";

/**
 * HTTP statuses of errors that are recorded for administrators' methods: forbidden, not found,
 * conflict.
 */
const ADMIN_DENIALS = [403, 404, 409];
/**
 * Errors that are recorded for users' own methods: impersonation, and deleting the account of the
 * last administrator.
 */
const OWN_DENIALS: ReadonlySet<Reason> = new Set([Reason.IMPERSONATING, Reason.LAST_ADMIN]);

/**
 * On every method that is not public, loads the session or API key that the port has verified and
 * enforces the method's policy. Runs before the request is validated, so that an error reveals
 * nothing about the request. Denials are recorded in their own transaction, since the operation's
 * is rolled back.
 */
export const authorize: Interceptor = (next) => async (req) => {
  const policy = policyOf(req.method);
  if (!policy || policy.access === Access.PUBLIC) return next(req);
  const call = callOf({ values: req.contextValues });
  const admitted = req.contextValues.get(admittedKey);
  if (policy.access === Access.GATEWAY) {
    assertGateway({ isForwarded: admitted?.open.isForwarded === true });
    return next(req);
  }
  const principal = await identify(call, admitted);
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

/** @throws ServiceError UNAUTHENTICATED */
async function identify(
  call: Call,
  { credential, lookup, onCredentialEnded }: Partial<Admitted> = {},
): Promise<UserPrincipal> {
  return credential?.kind === "api-key"
    ? identifyKey(call, credential, onCredentialEnded, lookup as ReturnType<FindUsableKey>)
    : identifySession(call, credential, onCredentialEnded, lookup as ReturnType<FindSession>);
}

/** @throws ServiceError KEY_NOT_ALLOWED, FORBIDDEN, IMPERSONATING, MFA_REQUIRED */
function assertAllowed(policy: Policy, principal: UserPrincipal, config: Config): void {
  if (principal.kind === "session") assertSessionAllowed(policy, principal, config);
  else if (policy.apiKeys !== ApiKeys.AI) {
    const message = "API keys can't be used for this. Please sign in.";
    throw new ServiceError(Reason.KEY_NOT_ALLOWED, message);
  }
}

function assertSessionAllowed(
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
