import { expect, test } from "vitest";
import { freshEmail } from "../support/accounts.ts";
import { startSuiteApp } from "../support/app.ts";
import { startRedisCluster } from "../support/database/redis.ts";
import { randomAddress } from "../support/http/client.ts";
import { refusal } from "../support/http/responses.ts";
import { describeIf, forSuite, isMissing } from "../support/suites.ts";
import { times } from "../support/tally.ts";
import { until } from "../support/until.ts";

describeIf(!isMissing("redis-server"), "Rate limits on a Redis cluster", async () => {
  const cluster = await forSuite(startRedisCluster("s3cret+"));
  const REDIS_URL = cluster.urls.slice(0, 2).join(); // the client finds the third node by these
  const replicas = await Promise.all(
    times(2, () => startSuiteApp({ mode: "embedded", env: { REDIS_URL } })),
  );
  const remaining = async (replica: (typeof replicas)[0], address: string) => {
    const { headers } = await replica
      .httpClient(address)
      .post("/auth/verify-email", { token: "none" });
    return Number(headers.get("ratelimit-remaining"));
  };

  test("counts concurrent requests for all replicas, on every node", async () => {
    const isReady = async (replica: (typeof replicas)[0]) =>
      (await replica.httpClient().get("/health")).status === 200;
    await until("connections to every node", async () =>
      (await Promise.all(replicas.map(isReady))).every(Boolean),
    );
    for (const _ of times(3, String)) {
      const counts = await Promise.all(
        times(10, randomAddress).map((address) =>
          Promise.all(times(4, (i) => remaining(replicas[i % 2] as (typeof replicas)[0], address))),
        ),
      );
      for (const each of counts) expect(each.sort()).toEqual(times(4, (i) => 26 + i));
    }
  });

  test("counts a request towards a user and an address on different nodes", async () => {
    const [one, other] = replicas as [(typeof replicas)[0], (typeof replicas)[0]];
    const address = randomAddress();
    const account = await one.signIn();
    const turns = times(60, (i) => replicas[i % 2] as typeof one);
    for (const replica of turns)
      await replica.httpClient(address).post("/auth/forgot-password", { email: freshEmail() });
    const form = { newEmail: freshEmail(), password: account.user.password };
    const changing = await one
      .httpClient(address)
      .post("/user/change-email", form, account.accessToken);
    expect(changing).toMatchObject(refusal(429, "RATE_LIMITED"));
    expect((await other.httpClient(address).get("/health")).body.checks.cache.status).toBe("ok");
    expect((await account.post("/user/change-email", form)).status).toBe(200);
  });

  test("delays few requests if a node stops responding", async () => {
    cluster.silence(1);
    const started = performance.now();
    for (const address of times(40, randomAddress)) {
      for (const replica of replicas)
        expect(await remaining(replica, address)).toBeGreaterThanOrEqual(28);
    }
    expect(performance.now() - started).toBeLessThan(3_000); // about 26 of the 80 requests use that node
  });
});
