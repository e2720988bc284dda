import type { Cluster, Redis } from "ioredis";
import type { Clock } from "../clock.ts";

/** What a request counts towards: how many of the same key fit into a window, and its length in ms. */
export type Counted = { key: string; most: number; windowMs: number };

/** How a request stands against its tightest limit; exceeded when `remaining` is negative. */
export type Standing = { limit: number; remaining: number; resetMs: number };

/** Counts requests in windows that start with the first of them. */
export type Limits = {
  /** Counts one request towards everything named (at least one). @returns the tightest standing. */
  take(counted: Counted[]): Promise<Standing>;
};

/** Keys that one process counts when there is no Redis; the oldest window goes. */
const MAX_KEYS = 100_000;
const PREFIX = "gatehouse:limit:";

/** Counts one request; the caller's clock decides, so that a window means the same with and without Redis. */
const SCRIPT = `
local ends = tonumber(redis.call('hget', KEYS[1], 'ends') or '0')
local now = tonumber(ARGV[1])
if ends <= now then
  ends = now + tonumber(ARGV[2])
  redis.call('hset', KEYS[1], 'ends', ends, 'count', 0)
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return {redis.call('hincrby', KEYS[1], 'count', 1), ends}`;

type Count = { count: number; endsAt: number };
type Counter = (limit: Counted, now: number) => Count | Promise<Count>;

/** Limits kept in Redis where there is one, by each process for itself while it is away. */
export function createLimits(redis: Redis | Cluster | undefined, clock: Clock): Limits {
  const own = countInProcess();
  const shared = redis && countInRedis(redis);
  const counter: Counter = shared ? (limit, now) => shared(limit, now).catch(() => own(limit, now)) : own;
  return {
    async take(counted) {
      const now = clock.now().getTime();
      const counts = await Promise.all(counted.map((limit) => counter(limit, now))); // one trip: commands are pipelined
      const standings = counted.map(({ most }, i) => {
        const { count, endsAt } = counts[i] as Count;
        return { limit: most, remaining: most - count, resetMs: endsAt - now };
      });
      return standings.reduce((tightest, other) => (other.remaining < tightest.remaining ? other : tightest));
    },
  };
}

function countInRedis(redis: Redis | Cluster) {
  redis.defineCommand("takeLimit", { numberOfKeys: 1, lua: SCRIPT });
  const take = (
    redis as unknown as { takeLimit(key: string, now: number, windowMs: number): Promise<[number, number]> }
  ).takeLimit;
  return async ({ key, windowMs }: Counted, now: number): Promise<Count> => {
    const [count, endsAt] = await take.call(redis, PREFIX + key, now, windowMs);
    return { count, endsAt: Number(endsAt) };
  };
}

function countInProcess() {
  const counts = new Map<string, Count>();
  return ({ key, windowMs }: Counted, now: number): Count => {
    let count = counts.get(key);
    if (!count || count.endsAt <= now) {
      counts.delete(key); // so that the new window stands last
      count = { count: 0, endsAt: now + windowMs };
      counts.set(key, count);
      if (counts.size > MAX_KEYS) counts.delete(counts.keys().next().value as string);
    }
    count.count++;
    return { ...count }; // as it stands for this request: others are counted before it is looked at
  };
}
