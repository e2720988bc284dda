import type { Interceptor } from "@connectrpc/connect";
import { AccountKey, LimitKey, Lockout } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { canonicalEmail } from "../accounts/email-address.ts";
import { type Call, callOf } from "../call.ts";
import { guessesOfDevice } from "../devices/known-device.ts";
import { isForGood, refuseLocked } from "../lockout/reserve-attempt.ts";
import {
  addressKeys,
  type RateLimiter,
  type RateLimitResult,
  rateLimitHeaders,
  refuseExceeded,
  tightest,
} from "../platform/gate/rate-limiter.ts";
import { type Admitted, admittedKey } from "../platform/gate/server-hooks.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { type MethodPolicy, policyOf } from "../platform/rpc/policy.ts";
import { readMfaToken } from "../sessions/tokens.ts";
import { findLock } from "../store/attempts.ts";
import { textOf } from "./text-field.ts";

/**
 * Counts requests that name an account in their body. The port has already counted the user or
 * address. A locked account gets the error for the lock, not for the rate limit. The operation
 * reserves the attempt.
 * @param rateLimiter undefined if rate limits are off
 */
export function limitAccounts(rateLimiter: RateLimiter | undefined): Interceptor {
  return (next) => async (req) => {
    const policy = policyOf(req.method);
    const value = textOf(req, policy?.account);
    if (!policy || value === undefined) return next(req);
    const call = callOf({ values: req.contextValues });
    const { deviceToken } = req.method.input.field;
    const device = textOf(req, deviceToken && { field: deviceToken }) ?? "";
    const result = await countAccount(rateLimiter, call, policy, value, device);
    if (!result) return next(req);
    const headers = showResult(req.contextValues.get(admittedKey), result);
    return addHeaders(headers, () => {
      refuseExceeded(result, policy.limits);
      return next(req);
    });
  };
}

/** Adds headers to a call's response or error. */
async function addHeaders<Response extends { header: Headers }>(
  headers: [string, string][],
  run: () => Promise<Response>,
): Promise<Response> {
  try {
    const response = await run();
    for (const [name, value] of headers) response.header.set(name, value);
    return response;
  } catch (error) {
    if (error instanceof ServiceError) error.headers.push(...headers);
    throw error;
  }
}

/**
 * Counts a request towards the account that it names.
 * @returns undefined if it names none, or the method has no limit per account
 * @throws ServiceError ACCOUNT_LOCKED
 */
async function countAccount(
  rateLimiter: RateLimiter | undefined,
  call: Call,
  policy: MethodPolicy,
  value: string,
  deviceToken: string,
): Promise<RateLimitResult | undefined> {
  const account = await accountOf(call, policy, value);
  if (account === undefined) return undefined;
  const clearedAt = await assertNotLockedFor(call, policy.lockout, account, deviceToken);
  const keys = keysOf(policy, call.client.address, account, clearedAt);
  return keys.length > 0 ? rateLimiter?.consume(keys) : undefined;
}

/** The user of an MFA token, or the canonical address; undefined if the text is neither. */
async function accountOf(
  call: Call,
  { account }: MethodPolicy,
  value: string,
): Promise<string | undefined> {
  if (account?.key !== AccountKey.TICKET) return canonicalEmail(value)?.canonical;
  return (await readMfaToken(call, value))?.userId;
}

/**
 * The keys that a request counts towards. Clearing a lock also resets the count, on every replica.
 */
function keysOf(
  { limits }: MethodPolicy,
  address: string,
  account: string,
  clearedAt: Date | null | undefined,
) {
  const suffix = `:account:${account}${clearedAt ? `:${clearedAt.getTime()}` : ""}`;
  return limits
    .filter((limit) => limit.by === LimitKey.ADDRESS_AND_ACCOUNT)
    .flatMap((limit) => addressKeys(limit, address, suffix));
}

/**
 * Shows the client the tighter of this limit and the one counted by the port.
 * @returns response headers, unless the port writes them itself
 */
function showResult(admitted: Admitted | undefined, result: RateLimitResult) {
  const shown = tightest(admitted?.rateLimit ?? result, result);
  if (!admitted?.showRateLimit) return rateLimitHeaders(shown);
  admitted.showRateLimit(shown);
  return [];
}

/**
 * Rejects a locked account, but not a known device that has guesses left. A permanent lock of codes
 * is not rejected here, since a backup code opens it.
 * @returns when a lock was last cleared
 */
async function assertNotLockedFor(
  call: Call,
  lockout: Lockout,
  subject: string,
  deviceToken: string,
): Promise<Date | null | undefined> {
  if (lockout === Lockout.UNSPECIFIED) return undefined;
  const kind = lockout === Lockout.PASSWORD ? "password" : "second-factor";
  const now = call.clock.now();
  const lock = await findLock(call, { kind, subject }, now);
  const isPassword = kind === "password";
  const own =
    isPassword && lock.lockedUntil ? await guessesOfDevice(call, subject, deviceToken) : undefined;
  if (own) refuseLocked(await findLock(call, own, now), own.kind, now);
  else if (isPassword || !isForGood(lock)) refuseLocked(lock, kind, now);
  return lock.clearedAt;
}
