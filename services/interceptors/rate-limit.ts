import type { Interceptor, StreamRequest, UnaryRequest } from "@connectrpc/connect";
import { AccountKey, LimitKey, Lockout } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { canonicalEmail } from "../accounts/email-address.ts";
import { type Call, callOf } from "../call.ts";
import { isForGood, refuseLocked } from "../lockout/reserve-attempt.ts";
import { ServiceError } from "../platform/errors.ts";
import { type MethodPolicy, policyOf } from "../platform/policy.ts";
import {
  addressKeys,
  type RateLimiter,
  type RateLimitResult,
  rateLimitHeaders,
  refuseExceeded,
  tightest,
} from "../platform/rate-limiter.ts";
import { admittedKey } from "../platform/server-hooks.ts";
import { readMfaToken } from "../sessions/tokens.ts";
import { findLock } from "../store/attempts.ts";

/**
 * Counts requests that name an account in their body. The port has counted the user or the address. A locked account gets
 * the error of the lock, not that of the limit. The operation reserves the attempt.
 * @param rateLimiter undefined if rate limits are off
 */
export function limitAccounts(rateLimiter: RateLimiter | undefined): Interceptor {
  return (next) => async (req) => {
    const policy = policyOf(req.method);
    const call = callOf({ values: req.contextValues });
    const account = policy && (await accountOf(call, policy, req));
    if (!policy || account === undefined) return next(req);
    const headers: [string, string][] = [];
    try {
      const result = await countAccount(rateLimiter, call, policy, account);
      const atPort = req.contextValues.get(admittedKey)?.rateLimit;
      if (result) headers.push(...rateLimitHeaders(atPort ? tightest(atPort, result) : result));
      const res = await next(req);
      for (const [name, value] of headers) res.header.set(name, value);
      return res;
    } catch (error) {
      if (error instanceof ServiceError) error.headers.push(...headers);
      throw error;
    }
  };
}

/** @throws ServiceError ACCOUNT_LOCKED, RATE_LIMITED */
async function countAccount(
  rateLimiter: RateLimiter | undefined,
  call: Call,
  { limits, policy }: MethodPolicy,
  account: string,
): Promise<RateLimitResult | undefined> {
  const clearedAt = await assertNotLockedFor(call, policy.lockout, account);
  const suffix = `:account:${account}${clearedAt ? `:${clearedAt.getTime()}` : ""}`; // a cleared lock forgets the count, everywhere
  const keys = limits
    .filter((limit) => limit.by === LimitKey.ADDRESS_AND_ACCOUNT)
    .flatMap((limit) => addressKeys(limit, call.client.address, suffix));
  if (!rateLimiter || keys.length === 0) return undefined;
  const result = await rateLimiter.consume(keys);
  refuseExceeded(result, limits);
  return result;
}

/** The account of a request: the canonical address, or the user that an MFA token names. */
async function accountOf(call: Call, { account }: MethodPolicy, req: UnaryRequest | StreamRequest) {
  if (!account || req.stream) return undefined;
  const value = (req.message as unknown as Record<string, unknown>)[account.field.localName];
  if (typeof value !== "string") return undefined;
  return account.key === AccountKey.TICKET
    ? (await readMfaToken(call, value))?.userId
    : canonicalEmail(value)?.canonical;
}

/** Refuses a locked account. A lock of codes for good is up to the operation: a backup code opens it. @returns when it was last cleared */
async function assertNotLockedFor(call: Call, lockout: Lockout, subject: string): Promise<Date | null | undefined> {
  if (lockout === Lockout.UNSPECIFIED) return undefined;
  const kind = lockout === Lockout.PASSWORD ? "password" : "second-factor";
  const lock = await findLock(call, { kind, subject }, call.clock.now());
  if (kind === "password" || !isForGood(lock)) refuseLocked(lock, kind, call.clock.now());
  return lock.clearedAt;
}
