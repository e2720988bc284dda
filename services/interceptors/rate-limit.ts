import type { Interceptor, StreamRequest, UnaryRequest } from "@connectrpc/connect";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { AccountKey, type Limit, LimitKey, Lockout } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { canonicalEmail } from "../accounts/email-address.ts";
import { type Call, callOf } from "../call.ts";
import { assertNotLocked } from "../lockout/reserve-attempt.ts";
import { networkOf } from "../platform/address.ts";
import { ServiceError } from "../platform/errors.ts";
import { type MethodPolicy, policyOf } from "../platform/policy.ts";
import type { Counted, Limits, Standing } from "../rate-limit/limiter.ts";
import { readMfaToken } from "../sessions/tokens.ts";

/** How many times an account's share one address may use over all accounts: an office behind one address can sign in. */
const ACCOUNTS_PER_ADDRESS = 20;

/**
 * Enforces the method's limits. Where it has a lockout, a locked account is reported before any limit is; the operation
 * counts the guess.
 */
export function limit(limits: Limits | undefined): Interceptor {
  return (next) => async (req) => {
    const rules = policyOf(req.method);
    if (!rules) return next(req);
    const call = callOf({ values: req.contextValues });
    const account = await accountOf(call, rules, req);
    if (account) await assertNotLockedFor(call, rules.policy.lockout, account);
    let standing: [string, string][] = [];
    try {
      if (limits && rules.limits.length > 0) standing = await take(limits, call, rules.limits, account);
      const res = await next(req);
      for (const [name, value] of standing) res.header.set(name, value);
      return res;
    } catch (error) {
      if (error instanceof ServiceError) error.headers.push(...standing);
      throw error;
    }
  };
}

async function take(
  limits: Limits,
  call: Call,
  rules: Limit[],
  account: string | undefined,
): Promise<[string, string][]> {
  const standing = call.standing ?? (await limits.take(rules.flatMap((rule) => countedBy(rule, call, account))));
  const headers = headersOf(standing);
  if (standing.remaining >= 0) return headers;
  const message = rules.find((rule) => rule.message)?.message ?? "Too many requests. Please try again later.";
  const retryAfterSeconds = Math.max(1, Math.ceil(standing.resetMs / 1000));
  const refusal = new ServiceError(Reason.RATE_LIMITED, message, { retryAfterSeconds });
  refusal.headers.push(...headers);
  throw refusal;
}

function countedBy(rule: Limit, call: Call, account: string | undefined): Counted[] {
  const network = networkOf(call.client.address);
  switch (rule.by) {
    case LimitKey.USER:
      return [countedFor(rule, `user:${call.caller?.user.id}`)];
    case LimitKey.ADDRESS_AND_ACCOUNT: {
      const all = countedFor(rule, `{address:${network}}`, rule.requests * ACCOUNTS_PER_ADDRESS);
      return account ? [all, countedFor(rule, `{address:${network}}:account:${account}`)] : [all];
    }
    default:
      return [countedFor(rule, `address:${network}`)];
  }
}

/** What a call of a user counts towards; undefined where that takes more than knowing who the user is. */
export function countedByUser({ limits, account }: MethodPolicy, userId: string): Counted[] | undefined {
  if (account || limits.length === 0 || limits.some(({ by }) => by !== LimitKey.USER)) return undefined;
  return limits.map((rule) => countedFor(rule, `user:${userId}`));
}

const countedFor = ({ bucket, requests, windowSeconds }: Limit, who: string, most = requests): Counted => ({
  key: `${bucket}:${who}`,
  most,
  windowMs: windowSeconds * 1000,
});

/** What the request's account is counted as: the canonical address, or the user that an MFA token names. */
async function accountOf(call: Call, { account }: MethodPolicy, req: UnaryRequest | StreamRequest) {
  if (!account || req.stream) return undefined;
  const value = (req.message as unknown as Record<string, unknown>)[account.field.localName];
  if (typeof value !== "string") return undefined;
  return account.key === AccountKey.TICKET
    ? (await readMfaToken(call, value))?.userId
    : canonicalEmail(value)?.canonical;
}

async function assertNotLockedFor(call: Call, lockout: Lockout, subject: string): Promise<void> {
  if (lockout === Lockout.PASSWORD) await assertNotLocked(call, { kind: "password", subject });
  if (lockout === Lockout.SECOND_FACTOR) await assertNotLocked(call, { kind: "second-factor", subject });
}

function headersOf({ limit, remaining, resetMs }: Standing): [string, string][] {
  return [
    ["ratelimit-limit", String(limit)],
    ["ratelimit-remaining", String(Math.max(0, remaining))],
    ["ratelimit-reset", String(Math.ceil(resetMs / 1000))],
  ];
}
