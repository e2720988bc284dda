import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { type Limit, LimitKey } from "../../../gen/gatehouse/platform/v1/policy_pb.ts";
import type { Clock } from "../process/clock.ts";
import { ServiceError } from "../rpc/errors.ts";
import { networksOf, siteOf } from "./address.ts";
import type { KeyReference } from "./api-key-cache.ts";
import type { RedisClient } from "./redis.ts";

/**
 * A rate-limit key. Keys that are counted together share a part in braces (a hash tag), which keeps
 * them on one node of a Redis cluster.
 */
export type RateLimitKey = { key: string; max: number; windowMs: number };

/** The part of a key in braces, by which a Redis cluster chooses its node. */
const hashTag = (key: RateLimitKey | undefined) => /\{[^}]*\}/.exec(key?.key ?? "")?.[0];

/** State of a request's tightest limit. A negative `remaining` means it is exceeded. */
export type RateLimitResult = { limit: number; remaining: number; resetMs: number };

export type RateLimiter = ReturnType<typeof createRateLimiter>;

/**
 * Maximum number of keys counted in process, without Redis. The oldest window is evicted first.
 */
const MAX_KEYS = 100_000;
/** Maximum number of exceeded limits that are remembered. The oldest is forgotten first. */
const MAX_EXCEEDED = 10_000;
/** Window of the counter that `check` uses, in ms. */
const CHECK_WINDOW_MS = 60_000;
const PREFIX = "gatehouse:limit:";

/**
 * Counts like `consume` in one round trip, with the caller's clock: windows are the same with and
 * without Redis.
 */
const SCRIPT = `
local now = tonumber(ARGV[1])
local standing = {}
local exceeded = false
for i, key in ipairs(KEYS) do
  local ends = tonumber(redis.call('hget', key, 'ends') or '0')
  local count = ends > now and tonumber(redis.call('hget', key, 'count')) or 0
  if count >= tonumber(ARGV[2 * i]) then exceeded = true end
  standing[2 * i - 1] = count + 1
  standing[2 * i] = ends > now and ends or now + tonumber(ARGV[2 * i + 1])
end
if exceeded then return standing end
for i, key in ipairs(KEYS) do
  if standing[2 * i - 1] > 1 then
    redis.call('hincrby', key, 'count', 1)
  else
    redis.call('hset', key, 'ends', standing[2 * i], 'count', 1)
    redis.call('pexpire', key, ARGV[2 * i + 1])
  end
end
return standing`;

export const tightest = (one: RateLimitResult, other: RateLimitResult): RateLimitResult =>
  other.remaining <= one.remaining ? other : one;

/**
 * The key for one limit of a method.
 * @param who whose requests share the counter
 */
const rateLimitKey = (limit: Limit, who: string, max = limit.requests): RateLimitKey => {
  return { key: `${limit.bucket}:${who}`, max, windowMs: limit.windowSeconds * 1000 };
};

/**
 * The keys for an address: for IPv6, its /64 and its /48, on the same node of a Redis cluster.
 * @param account the account whose requests are counted separately
 */
export function addressKeys(
  limit: Limit,
  address: string,
  account = "",
  max = limit.requests,
): RateLimitKey[] {
  const site = siteOf(address);
  return networksOf(address).map(([network, factor]) =>
    rateLimitKey(
      limit,
      `{address:${site}}${network === site ? "" : network}${account}`,
      max * factor,
    ),
  );
}

/** Factor of an address's limit across all accounts, for addresses with many users. */
const ACCOUNTS_PER_ADDRESS = 20;

/** Who a request counts towards: a user, or one of their API keys. */
export type Counted = { userId: string; apiKey?: CountedKey | undefined };
export type CountedKey = Pick<KeyReference, "keyId" | "isService" | "requestsPerMinute">;

/** Requests per minute of a key of a service account that has no separate limit. */
const SERVICE_KEY_REQUESTS = 600;
const MINUTE_MS = 60_000;

/**
 * The keys for a user. An API key of a person counts towards the person, like sessions, and towards
 * its own limit, if any. An API key of a service account counts only towards its own limit.
 */
function userKeys(limit: Limit, { userId, apiKey }: Counted): RateLimitKey[] {
  const user = `{user:${userId}}`;
  const own = apiKey?.requestsPerMinute ?? (apiKey?.isService ? SERVICE_KEY_REQUESTS : undefined);
  if (!apiKey || own === undefined) return [rateLimitKey(limit, user)];
  const ofKey = { key: `api-key:${user}${apiKey.keyId}`, max: own, windowMs: MINUTE_MS };
  return apiKey.isService ? [ofKey] : [rateLimitKey(limit, user), ofKey];
}

/**
 * The keys that can be derived from a request's headers. Accounts are named in bodies; an
 * interceptor counts them.
 * @param counted undefined on public methods
 */
export function requestKeys(
  limits: readonly Limit[],
  counted: Counted | undefined,
  address: string,
): RateLimitKey[] {
  return limits.flatMap((limit) => {
    if (limit.by === LimitKey.USER) return counted ? userKeys(limit, counted) : [];
    if (limit.by === LimitKey.ADDRESS) return addressKeys(limit, address);
    return addressKeys(limit, address, "", limit.requests * ACCOUNTS_PER_ADDRESS);
  });
}

/** The `RateLimit` headers of a response. */
export const rateLimitHeaders = ({
  limit,
  remaining,
  resetMs,
}: RateLimitResult): [name: string, value: string][] => [
  ["ratelimit-limit", String(limit)],
  ["ratelimit-remaining", String(Math.max(0, remaining))],
  ["ratelimit-reset", String(Math.ceil(resetMs / 1000))],
];

/**
 * @throws ServiceError RATE_LIMITED if a limit is exceeded, with the message from the method's
 * policy
 */
export function refuseExceeded(result: RateLimitResult, limits: readonly Limit[]): void {
  if (result.remaining >= 0) return;
  const message =
    limits.find((limit) => limit.message)?.message ?? "Too many requests. Please try again later.";
  const retryAfterSeconds = Math.max(1, Math.ceil(result.resetMs / 1000));
  throw new ServiceError(Reason.RATE_LIMITED, message, { retryAfterSeconds });
}

type Count = { count: number; endsAt: number };

/**
 * Counts requests in windows that start with their first request. While Redis is unavailable, each
 * process counts on its own.
 */
export function createRateLimiter(cache: RedisClient | undefined, clock: Clock) {
  const own = countInProcess();
  const shared = cache && countInRedis(cache);
  const exceeded = createExceeded(clock);

  /** Counts a request towards keys that are counted together. */
  async function count(keys: RateLimitKey[]): Promise<RateLimitResult> {
    const now = clock.now().getTime();
    const counts = await (shared ? shared(keys, now).catch(() => own(keys, now)) : own(keys, now));
    const standings = counts.map(({ count, endsAt }, i) => {
      const key = keys[i] as RateLimitKey;
      // the clocks of processes differ or are set back, but Redis deletes the counter after the
      // window anyway
      const resetMs = Math.min(endsAt - now, key.windowMs);
      const standing = { limit: key.max, remaining: key.max - count, resetMs };
      if (standing.remaining < 0) exceeded.add(key, standing);
      return standing;
    });
    return standings.reduce(tightest);
  }

  return {
    /** The state of a limit that a request would exceed, as far as this process knows. */
    exceededBy: exceeded.find,
    /**
     * Counts a request towards every key (at least one). A request that exceeds a limit counts
     * towards none, so that clients cannot create counters for made-up accounts or addresses. Keys
     * with different hash tags are counted one after the other, because they may be on different
     * nodes of a Redis cluster. A limit that is known to be exceeded is not asked for again, so that
     * a flood costs Redis nothing.
     * @returns the state of the tightest limit
     */
    async consume(keys: RateLimitKey[]): Promise<RateLimitResult> {
      const known = exceeded.find(keys);
      if (known) return known;
      const tag = hashTag(keys[0]);
      const others = keys.filter((each) => hashTag(each) !== tag);
      if (others.length === 0) return count(keys);
      const first = await count(keys.filter((each) => hashTag(each) === tag));
      return first.remaining < 0 ? first : tightest(first, await this.consume(others));
    },
    /** Resolves if Redis works or is not configured. */
    async check(): Promise<void> {
      await shared?.([{ key: "check", max: 1, windowMs: CHECK_WINDOW_MS }], clock.now().getTime());
    },
  };
}

/** Remembers exceeded limits until their windows end: no request counts towards them until then. */
function createExceeded(clock: Clock) {
  const ends = new Map<string, { max: number; at: number }>();
  return {
    add({ key, max }: RateLimitKey, { resetMs }: RateLimitResult): void {
      ends.delete(key); // re-inserted as the newest entry
      ends.set(key, { max, at: clock.now().getTime() + resetMs });
      if (ends.size > MAX_EXCEEDED) ends.delete(ends.keys().next().value as string);
    },
    find(keys: readonly RateLimitKey[]): RateLimitResult | undefined {
      if (ends.size === 0) return undefined;
      for (const { key, max, windowMs } of keys) {
        const end = ends.get(key);
        if (!end) continue;
        const resetMs = end.at - clock.now().getTime();
        // the window is still open, the clock was not set back, and the limit was not raised
        if (resetMs > 0 && resetMs <= windowMs && max <= end.max)
          return { limit: max, remaining: -1, resetMs };
        ends.delete(key);
      }
      return undefined;
    },
  };
}

/** @returns the counts with this request, as `countInProcess` does */
function countInRedis({ client, withBreaker }: RedisClient) {
  client.defineCommand("takeLimits", { lua: SCRIPT });
  const counter = client as unknown as {
    takeLimits(keys: number, ...keysAndValues: (string | number)[]): Promise<number[]>;
  };
  return async (keys: RateLimitKey[], now: number): Promise<Count[]> => {
    const names = keys.map(({ key }) => PREFIX + key);
    const values = keys.flatMap(({ max, windowMs }) => [max, windowMs]);
    const standing = await withBreaker(() =>
      counter.takeLimits(names.length, ...names, now, ...values),
    );
    return keys.map((_, i) => ({
      count: standing[2 * i] as number,
      endsAt: standing[2 * i + 1] as number,
    }));
  };
}

function countInProcess() {
  const counts = new Map<string, Count>();
  return (keys: RateLimitKey[], now: number): Count[] => {
    const standings = keys.map(({ key, windowMs }) => {
      const { count, endsAt } = counts.get(key) ?? { count: 0, endsAt: now };
      const isOpen = endsAt > now && endsAt <= now + windowMs; // false if it has ended or the clock was set back
      return isOpen ? { count: count + 1, endsAt } : { count: 1, endsAt: now + windowMs };
    });
    if (standings.some(({ count }, i) => count > (keys[i] as RateLimitKey).max)) return standings;
    for (const [i, { key }] of keys.entries()) {
      const standing = standings[i] as Count;
      if (standing.count === 1) counts.delete(key); // re-inserted as the newest entry
      counts.set(key, standing);
      if (counts.size > MAX_KEYS) counts.delete(counts.keys().next().value as string);
    }
    return standings;
  };
}
