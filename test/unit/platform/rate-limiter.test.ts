import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { createRateLimiter } from "../../../services/platform/gate/rate-limiter.ts";
import { openRedis } from "../../../services/platform/gate/redis.ts";
import { silent } from "../../support/log.ts";
import { forTest } from "../../support/suites.ts";
import { times } from "../../support/tally.ts";

const onServers = test.runIf(process.env.TEST_SERVERS);
const openCache = () => forTest(openRedis([process.env.TEST_REDIS_URL as string], silent));
const clock = { now: () => new Date() };
const windowMs = 60_000;

/** The limits of a request: of its address, and of its account at this address. */
const limitsOf = (address: string, account: string) => [
  { key: `{${address}}`, max: 3, windowMs },
  { key: `{${address}}:account:${account}`, max: 2, windowMs },
];

test("Rate limiter: an address stays limited, however many accounts it uses", async () => {
  const limits = createRateLimiter(undefined, clock);
  let accepted = 0;
  for (const account of times(100_001, String)) {
    // more accounts than one process counts
    const { remaining } = await limits.consume(limitsOf("address", account));
    if (remaining >= 0) accepted++;
  }
  expect(accepted).toBe(3);
});

test("Rate limiter: an address stays limited, however many networks another site uses", async () => {
  const limits = createRateLimiter(undefined, clock);
  for (const site of ["one", "two", "three"]) {
    for (const network of times(50_000, String)) {
      await limits.consume([
        { key: `{${site}}${network}`, max: 1, windowMs },
        { key: `{${site}}`, max: 10, windowMs },
      ]);
    }
    const { remaining } = await limits.consume([{ key: "address", max: 1, windowMs }]);
    expect(remaining).toBe(site === "one" ? 0 : -1);
  }
});

test("Rate limiter: no wait is longer than a window, even after a clock change", async () => {
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

onServers("Rate limiter: a shared Redis reports no wait longer than a window", async () => {
  const cache = await openCache();
  const key = randomUUID();
  const takeAt = (time: number) =>
    createRateLimiter(cache, { now: () => new Date(time) }).consume([{ key, max: 1, windowMs }]);
  const now = Date.now();
  await takeAt(now + 3_600_000);
  expect(await takeAt(now)).toEqual({ limit: 1, remaining: -1, resetMs: windowMs });
});

onServers("Rate limiter: refused requests for new accounts leave no counter in Redis", async () => {
  const cache = await openCache();
  const address = randomUUID();
  const limits = createRateLimiter(cache, clock);
  const standings = [];
  for (const account of ["a", "a", "a", "b", "c", "d"])
    standings.push(await limits.consume(limitsOf(address, account)));
  const left = standings.map(({ limit, remaining }) => `${remaining} of ${limit}`);
  expect(left).toEqual(["1 of 2", "0 of 2", "-1 of 2", "0 of 3", "-1 of 3", "-1 of 3"]);
  const keys = await cache.client.keys(`*${address}*`);
  expect(keys.filter((key) => key.includes("account"))).toHaveLength(2); // of a and b
});
