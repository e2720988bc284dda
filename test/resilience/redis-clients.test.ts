import { randomBytes, randomUUID } from "node:crypto";
import { createServer } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { createRateLimiter } from "../../services/platform/gate/rate-limiter.ts";
import { openRedis } from "../../services/platform/gate/redis.ts";
import { startApp } from "../support/app.ts";
import { createMigratedDatabase } from "../support/database/databases.ts";
import type { HttpResponse } from "../support/http/client.ts";
import { captureLog, silent } from "../support/log.ts";
import { listen } from "../support/network/sockets.ts";
import { startProxy } from "../support/network/tcp-proxy.ts";
import { forTest } from "../support/suites.ts";
import { tallyGuesses, times } from "../support/tally.ts";
import { until } from "../support/until.ts";

const clock = { now: () => new Date() };
const onServers = test.runIf(process.env.TEST_SERVERS);

test("Redis: a proxy without a server behind it does not delay the start, and is logged", async () => {
  const proxy = await forTest(
    createServer((client) =>
      client
        .on("error", () => {})
        .resume()
        .end(),
    ),
  );
  const { lines, log } = captureLog();
  const cache = await openRedis([`redis://127.0.0.1:${await listen(proxy)}`], log);
  const limits = createRateLimiter(cache, clock);
  await expect(limits.check()).rejects.toThrow();
  expect(await limits.consume([{ key: "k", max: 2, windowMs: 1_000 }])).toMatchObject({
    remaining: 1,
  });
  expect(lines).toEqual([
    expect.stringContaining("Redis unavailable, rate limits are counted per process"),
  ]);
  cache.close();
});

onServers("Redis: uses only the commands and keys of docs/operations.md", async () => {
  const url = new URL(process.env.TEST_REDIS_URL as string);
  const admin = new Redis(url.href);
  const [user, password] = [`gatehouse_${randomUUID()}`, randomUUID()];
  const rights =
    "~gatehouse:limit:* -@all +ping +info +eval +evalsha +hget +hset +hincrby +pexpire";
  await admin.call("acl", "setuser", user, "on", `>${password}`, ...rights.split(" "));
  const cache = await openRedis([Object.assign(url, { username: user, password }).href], silent);
  try {
    await expect(createRateLimiter(cache, clock).check()).resolves.toBeUndefined();
    await expect(cache.ping()).resolves.toBeUndefined();
  } finally {
    cache.close();
    await admin.call("acl", "deluser", user);
    admin.disconnect();
  }
});

onServers("Redis: a server that stops responding delays only the first command", async () => {
  const proxy = await forTest(startProxy(process.env.TEST_REDIS_URL as string));
  const cache = await forTest(openRedis([proxy.url], silent));
  const limits = createRateLimiter(cache, clock);
  const take = async () => {
    const startedAt = performance.now();
    await limits.consume([{ key: randomUUID(), max: 2, windowMs: 1_000 }]);
    return performance.now() - startedAt;
  };
  const isCounting = async () => !(await limits.check().catch((error) => error));
  await until("Redis to count", isCounting); // a command has a time limit, which a busy machine may miss
  proxy.silence();
  expect(await take()).toBeGreaterThan(200);
  for (const waitedMs of await Promise.all(times(50, take))) expect(waitedMs).toBeLessThan(100);
  proxy.restore();
  await until("Redis to count again", isCounting);
});

onServers(
  "Redis: a limit that is exceeded stays so without Redis until its window ends",
  async () => {
    const proxy = await forTest(startProxy(process.env.TEST_REDIS_URL as string));
    const cache = await forTest(openRedis([proxy.url], silent));
    let now = Date.now();
    const limits = createRateLimiter(cache, { now: () => new Date(now) });
    const key = { key: randomUUID(), max: 1, windowMs: 60_000 };
    const take = async (keys = [key]) => (await limits.consume(keys)).remaining;
    expect([await take(), await take()]).toEqual([0, -1]);
    proxy.silence();
    expect(limits.exceededBy([key])).toMatchObject({ limit: 1, remaining: -1 });
    expect([await take(), await take([{ ...key, key: randomUUID() }, key])]).toEqual([-1, -1]);
    now += key.windowMs;
    expect(limits.exceededBy([key])).toBeUndefined();
    expect(await take()).toBe(0); // counted by this process
  },
);

onServers("Redis: a limit that was raised is counted again", async () => {
  const cache = await forTest(openRedis([process.env.TEST_REDIS_URL as string], silent));
  const limits = createRateLimiter(cache, clock);
  const key = { key: randomUUID(), max: 1, windowMs: 60_000 };
  const take = async (max: number) => (await limits.consume([{ ...key, max }])).remaining;
  expect([await take(1), await take(1), await take(3), await take(3)]).toEqual([0, -1, 1, 0]);
});

onServers("Redis: a stalled process reads the reply that arrived in the meantime", async () => {
  const cache = await forTest(openRedis([process.env.TEST_REDIS_URL as string], silent));
  const reply = cache.withBreaker(() => cache.client.eval("return 7", 0));
  await nextTurn(); // it is sent
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
  expect(await reply).toBe(7);
});

onServers(
  "POST /auth/login: two replicas evaluate five guesses in total, even if Redis stops responding",
  async () => {
    const proxy = await forTest(startProxy(process.env.TEST_REDIS_URL as string));
    const SECRET_KEY = randomBytes(32).toString("base64");
    const shared = {
      REDIS_URL: proxy.url,
      SECRET_KEY,
      DATABASE_URL: await createMigratedDatabase(),
    };
    const startReplica = () => forTest(startApp({ mode: "servers", env: shared }));
    const replicas = [await startReplica(), await startReplica()] as const;
    const users = await Promise.all(times(6, () => replicas[0].addUser()));
    for (const [round, { email, credentials }] of users.entries()) {
      const clients = replicas.flatMap((replica) => [replica.httpClient(), replica.httpClient()]);
      const guesses = times(40, (i) =>
        clients[i % 4]?.post("/auth/login", { email, password: "Wrong-1-guess" }),
      );
      if (round === 1) proxy.silence(); // no further command has a reply
      const answers = (await Promise.all(guesses)) as HttpResponse[];
      expect(tallyGuesses(answers)).toEqual({ evaluated: 5, refused: 35 });
      expect((await clients[0]?.post("/auth/login", credentials))?.status).toBe(423);
    }
  },
);
