import type { Clock } from "../platform/clock.ts";
import type { RedisClient } from "../platform/redis.ts";

/**
 * What a request counts towards: how many of the same key fit into a window, and its length in ms. Keys that are counted
 * together name what they share in braces, which keeps them on one node of a cluster.
 */
export type Counted = { key: string; most: number; windowMs: number };

/** How a request stands against its tightest limit; exceeded when `remaining` is negative. */
export type Standing = { limit: number; remaining: number; resetMs: number };

/** Counts requests in windows that start with the first of them. */
export type Limits = {
  /**
   * Counts one request towards each key (at least one) in order, stopping at the first whose limit it exceeds, so that
   * a client who makes up accounts leaves no counter for each. @returns the tightest standing.
   */
  take(counted: Counted[]): Promise<Standing>;
  /** Resolves when the shared counters work, or none are configured. */
  check(): Promise<void>;
};

/** Keys that one process counts when there is no Redis; the oldest window goes. */
const MAX_KEYS = 100_000;
/** Window of the counter that `check` probes with, in ms. */
const CHECK_WINDOW_MS = 60_000;
const PREFIX = "gatehouse:limit:";

/**
 * Counts one request towards the keys, up to the first whose most it exceeds: one trip. The caller's clock decides, so
 * that a window means the same with and without Redis.
 */
const SCRIPT = `
local now = tonumber(ARGV[1])
local standing = {}
for i, key in ipairs(KEYS) do
  local most, window = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1])
  local ends = tonumber(redis.call('hget', key, 'ends') or '0')
  if ends <= now then
    ends = now + window
    redis.call('hset', key, 'ends', ends, 'count', 0)
    redis.call('pexpire', key, window)
  end
  local count = redis.call('hincrby', key, 'count', 1)
  standing[2 * i - 1] = count
  standing[2 * i] = ends
  if count > most then break end
end
return standing`;

type Count = { count: number; endsAt: number };
/** Counts towards everything named, up to the first that is exceeded. */
type Counter = (counted: Counted[], now: number) => Count[] | Promise<Count[]>;

/** Limits kept in Redis where there is one, by each process for itself while it is away. */
export function createLimits(cache: RedisClient | undefined, clock: Clock): Limits {
  const own = countInProcess();
  const shared = cache && countInRedis(cache);
  const counter: Counter = shared ? (counted, now) => shared(counted, now).catch(() => own(counted, now)) : own;
  return {
    async take(counted) {
      const now = clock.now().getTime();
      const counts = await counter(counted, now);
      const standings = counts.map(({ count, endsAt }, i) => {
        const { most, windowMs } = counted[i] as Counted;
        // the clock may have been put back since, or another process's be ahead: Redis keeps no count longer all the same
        return { limit: most, remaining: most - count, resetMs: Math.min(endsAt - now, windowMs) };
      });
      return standings.reduce((tightest, other) => (other.remaining <= tightest.remaining ? other : tightest));
    },
    async check() {
      await shared?.([{ key: "check", most: 1, windowMs: CHECK_WINDOW_MS }], clock.now().getTime());
    },
  };
}

function countInRedis({ client, withBreaker }: RedisClient) {
  client.defineCommand("takeLimits", { lua: SCRIPT });
  const counter = client as unknown as {
    takeLimits(keys: number, ...keysAndValues: (string | number)[]): Promise<number[]>;
  };
  return async (counted: Counted[], now: number): Promise<Count[]> => {
    const keys = counted.map(({ key }) => PREFIX + key);
    const values = counted.flatMap(({ most, windowMs }) => [most, windowMs]);
    const standing = await withBreaker(() => counter.takeLimits(keys.length, ...keys, now, ...values));
    return counted
      .slice(0, standing.length / 2)
      .map((_, i) => ({ count: standing[2 * i] as number, endsAt: standing[2 * i + 1] as number }));
  };
}

function countInProcess() {
  const counts = new Map<string, Count>();
  const countOne = ({ key, windowMs }: Counted, now: number): Count => {
    let count = counts.get(key);
    if (!count || count.endsAt <= now || count.endsAt > now + windowMs) {
      // over, or begun before the clock was put back
      counts.delete(key); // so that the new window stands last
      count = { count: 0, endsAt: now + windowMs };
      counts.set(key, count);
      if (counts.size > MAX_KEYS) counts.delete(counts.keys().next().value as string);
    }
    count.count++;
    return { ...count }; // as it stands for this request: others are counted before it is looked at
  };
  return (counted: Counted[], now: number): Count[] => {
    const seen: Count[] = [];
    for (const limit of counted) {
      const count = countOne(limit, now);
      seen.push(count);
      if (count.count > limit.most) break;
    }
    return seen;
  };
}
