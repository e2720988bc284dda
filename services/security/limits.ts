import type { Clock } from "../clock.ts";
import type { SharedCache } from "../store/redis.ts";

/** What a request counts towards: how many of the same key fit into a window, and its length in ms. */
export type Counted = { key: string; most: number; windowMs: number };

/** How a request stands against its tightest limit; exceeded when `remaining` is negative. */
export type Standing = { limit: number; remaining: number; resetMs: number };

/** Counts requests in windows that start with the first of them. */
export type Limits = {
  /**
   * Counts one request towards everything named (at least one), in that order, up to the first that it exceeds: who
   * invents accounts leaves no counter for each. @returns the tightest standing.
   */
  take(counted: Counted[]): Promise<Standing>;
  /** Resolves when all processes count together, as far as they are meant to. */
  check(): Promise<void>;
};

/** Keys that one process counts when there is no Redis; the oldest window goes. */
const MAX_KEYS = 100_000;
/** Window of what is counted to see that it can be, in ms. */
const CHECK_WINDOW_MS = 60_000;
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
export function createLimits(cache: SharedCache | undefined, clock: Clock): Limits {
  const own = countInProcess();
  const shared = cache && countInRedis(cache);
  const counter: Counter = shared ? (limit, now) => shared(limit, now).catch(() => own(limit, now)) : own;
  return {
    async take(counted) {
      const now = clock.now().getTime();
      let tightest: Standing | undefined;
      for (const limit of counted) {
        const { count, endsAt } = await counter(limit, now);
        const standing = { limit: limit.most, remaining: limit.most - count, resetMs: endsAt - now };
        if (!tightest || standing.remaining <= tightest.remaining) tightest = standing;
        if (standing.remaining < 0) break;
      }
      return tightest as Standing;
    },
    async check() {
      await shared?.({ key: "check", most: 1, windowMs: CHECK_WINDOW_MS }, clock.now().getTime());
    },
  };
}

function countInRedis({ client, ask }: SharedCache) {
  client.defineCommand("takeLimit", { numberOfKeys: 1, lua: SCRIPT });
  const counter = client as unknown as {
    takeLimit(key: string, now: number, windowMs: number): Promise<[number, number]>;
  };
  return async ({ key, windowMs }: Counted, now: number): Promise<Count> => {
    const [count, endsAt] = await ask(() => counter.takeLimit(PREFIX + key, now, windowMs));
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
