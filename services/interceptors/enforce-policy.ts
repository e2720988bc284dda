import type { DescField, Message } from "@bufbuild/protobuf";
import type { Interceptor, StreamRequest, UnaryRequest } from "@connectrpc/connect";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import {
  Access,
  AccountKey,
  AuditTarget,
  LimitKey,
  Lockout,
  type Policy,
} from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { canonicalEmail } from "../accounts/email-address.ts";
import { recordAudit } from "../audit/record.ts";
import { type Call, callOf } from "../call.ts";
import { isForGood, refuseLocked } from "../lockout/reserve-attempt.ts";
import type { Config } from "../platform/config.ts";
import { reasonName, ServiceError, statusOf } from "../platform/errors.ts";
import { type MethodPolicy, policyOf } from "../platform/policy.ts";
import {
  addressKeys,
  type RateLimiter,
  rateLimitHeaders,
  refuseExceeded,
  tightest,
} from "../platform/rate-limiter.ts";
import { admittedKey } from "../platform/server-hooks.ts";
import { identify } from "../sessions/check-session.ts";
import { readMfaToken } from "../sessions/tokens.ts";
import { findLock } from "../store/attempts.ts";
import type { FoundSession } from "../store/sessions.ts";

/**
 * HTTP statuses of the errors of administrators' methods that are recorded: forbidden, not found,
 * conflict.
 */
const ADMIN_DENIALS = [403, 404, 409];
/**
 * Errors of users' own methods that are recorded: impersonation, and a last administrator who
 * deletes the account.
 */
const OWN_DENIALS: ReadonlySet<Reason> = new Set([Reason.IMPERSONATING, Reason.LAST_ADMIN]);

/**
 * Loads the session of the access token that the port has verified, on every method that is not
 * public, and enforces the method's role. It runs before the request is validated, so an error
 * reveals nothing about its contents. Denials are recorded in a transaction of their own, since
 * that of the operation is rolled back.
 */
export const authorize: Interceptor = (next) => async (req) => {
  const policy = policyOf(req.method);
  if (!policy || policy.access === Access.PUBLIC) return next(req);
  const call = callOf({ values: req.contextValues });
  const { claims, onSessionEnded } = req.contextValues.get(admittedKey) ?? {};
  call.caller = await identify(call, claims, onSessionEnded);
  try {
    assertAllowed(policy, call.caller, call.config);
    return await next(req);
  } catch (error) {
    if (error instanceof ServiceError && isRecorded(policy, error)) {
      const isAdmins = policy.access === Access.ADMIN;
      const { userId, ...other } = isAdmins
        ? targetOf(req, policy)
        : { userId: call.caller.user.id };
      const details = { reason: reasonName(error.reason), rpc: req.method.name, ...other };
      await recordAudit(call, "admin.denied", { userId, outcome: "failure", details });
    }
    throw error;
  }
};

/** @throws ServiceError FORBIDDEN, IMPERSONATING, MFA_REQUIRED */
function assertAllowed(
  { access, forbidImpersonation }: Policy,
  { user, actorId, usedSecondFactor }: FoundSession,
  { requireAdminMfa }: Pick<Config, "requireAdminMfa">,
): void {
  if (access === Access.ADMIN && user.role !== "admin") {
    throw new ServiceError(Reason.FORBIDDEN, "This needs the role admin.");
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

/** The target that the request names, if any. The request may not have been validated yet. */
function targetOf(
  req: UnaryRequest | StreamRequest,
  { target }: MethodPolicy,
): { userId?: string; emailId?: string } {
  const id = textOf(req, target);
  if (id === undefined || !/^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i.test(id)) return {};
  return target?.kind === AuditTarget.EMAIL ? { emailId: id } : { userId: id };
}

/**
 * Counts requests that name an account in their body. The port has counted the user or the address.
 * A locked account gets the error of the lock, not that of the limit. The operation reserves the
 * attempt.
 * @param rateLimiter undefined if rate limits are off
 */
export function limitAccounts(rateLimiter: RateLimiter | undefined): Interceptor {
  return (next) => async (req) => {
    const policy = policyOf(req.method);
    const value = textOf(req, policy?.account);
    if (!policy || value === undefined) return next(req);
    const call = callOf({ values: req.contextValues });
    // The user that an MFA token names, or the canonical address.
    const isTicket = policy.account?.key === AccountKey.TICKET;
    const account = isTicket
      ? (await readMfaToken(call, value))?.userId
      : canonicalEmail(value)?.canonical;
    if (account === undefined) return next(req);
    const clearedAt = await assertNotLockedFor(call, policy.lockout, account);
    const suffix = `:account:${account}${clearedAt ? `:${clearedAt.getTime()}` : ""}`; // a cleared lock forgets the count, everywhere
    const keys = policy.limits
      .filter((limit) => limit.by === LimitKey.ADDRESS_AND_ACCOUNT)
      .flatMap((limit) => addressKeys(limit, call.client.address, suffix));
    const result = keys.length > 0 ? await rateLimiter?.consume(keys) : undefined;
    if (!result) return next(req);
    const { rateLimit: atPort = result, showRateLimit } = req.contextValues.get(admittedKey) ?? {};
    showRateLimit?.(tightest(atPort, result));
    const headers = showRateLimit ? [] : rateLimitHeaders(tightest(atPort, result));
    try {
      refuseExceeded(result, policy.limits);
      const res = await next(req);
      for (const [name, value] of headers) res.header.set(name, value);
      return res;
    } catch (error) {
      if (error instanceof ServiceError) error.headers.push(...headers);
      throw error;
    }
  };
}

/**
 * Refuses a locked account. A backup code opens a lock of codes for good.
 * @returns when a lock was last cleared
 */
async function assertNotLockedFor(
  call: Call,
  lockout: Lockout,
  subject: string,
): Promise<Date | null | undefined> {
  if (lockout === Lockout.UNSPECIFIED) return undefined;
  const kind = lockout === Lockout.PASSWORD ? "password" : "second-factor";
  const lock = await findLock(call, { kind, subject }, call.clock.now());
  if (kind === "password" || !isForGood(lock)) refuseLocked(lock, kind, call.clock.now());
  return lock.clearedAt;
}

/** The text that a request has in a field; undefined for a stream. */
function textOf(
  req: UnaryRequest | StreamRequest,
  named: { field: DescField } | undefined,
): string | undefined {
  if (req.stream || !named) return undefined;
  const value = (req.message as Message & Record<string, unknown>)[named.field.localName];
  return typeof value === "string" ? value : undefined;
}
