import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { expect, test } from "vitest";
import { createRateLimiter } from "../../../services/platform/rate-limiter.ts";
import { openRedis } from "../../../services/platform/redis.ts";
import { times } from "../../support/until.ts";

const clock = { now: () => new Date() };
const windowMs = 60_000;

/** What a request of an account counts towards: its address in all, and the account there. */
const asked = (address: string, account: string) => [
  { key: `{${address}}`, max: 3, windowMs },
  { key: `{${address}}:account:${account}`, max: 2, windowMs },
];

test("Rate limiter: an address stays limited however many accounts it invents", async () => {
  const limits = createRateLimiter(undefined, clock);
  let letIn = 0;
  for (const account of times(100_001, String)) {
    // more than one process counts
    const { remaining } = await limits.consume(asked("address", account));
    if (remaining >= 0) letIn++;
  }
  expect(letIn).toBe(3);
});

test("Rate limiter: nobody waits longer than a window, whenever the machine's clock is set", async () => {
  let now = Date.now();
  const limits = createRateLimiter(undefined, { now: () => new Date(now) });
  const take = async () => await limits.consume([{ key: "address", max: 1, windowMs }]);
  await take();
  expect(await take()).toEqual({ limit: 1, remaining: -1, resetMs: windowMs });
  now -= 3_600_000;
  expect(await take()).toEqual({ limit: 1, remaining: 0, resetMs: windowMs });
  now += 1_000;
  expect(await take()).toEqual({ limit: 1, remaining: -1, resetMs: windowMs - 1_000 });
});

test.runIf(process.env.TEST_SERVERS)("Rate limiter: a shared Redis reports no wait longer than a window", async () => {
  const cache = await openRedis([process.env.TEST_REDIS_URL as string], pino({ enabled: false }));
  const key = randomUUID();
  const takeAt = (time: number) =>
    createRateLimiter(cache, { now: () => new Date(time) }).consume([{ key, max: 1, windowMs }]);
  const now = Date.now();
  await takeAt(now + 3_600_000);
  expect(await takeAt(now)).toEqual({ limit: 1, remaining: -1, resetMs: windowMs });
  cache.close();
});

test.runIf(process.env.TEST_SERVERS)(
  "Rate limiter: refused requests for new accounts leave no counter in Redis",
  async () => {
    const cache = await openRedis([process.env.TEST_REDIS_URL as string], pino({ enabled: false }));
    const address = randomUUID();
    const limits = createRateLimiter(cache, clock);
    const standings = [];
    for (const account of ["a", "a", "a", "b", "c"]) standings.push(await limits.consume(asked(address, account)));
    expect(standings.map(({ limit, remaining }) => [limit, remaining])).toEqual([
      [2, 1],
      [2, 0],
      [2, -1],
      [3, -1],
      [3, -2],
    ]);
    const left = await cache.client.keys(`*${address}*`);
    expect(left.filter((key) => key.includes("account"))).toHaveLength(1);
    cache.close();
  },
);
