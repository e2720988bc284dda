import { setTimeout as wait } from "node:timers/promises";
import { createClient, createRouterTransport } from "@connectrpc/connect";
import { expect, test } from "vitest";
import {
  Health,
  HealthCheckResponse_ServingStatus as Status,
} from "../../../gen/health/v1/health_pb.ts";
import { createMetrics } from "../../../services/metrics.ts";
import { healthChecks, healthHandler } from "../../../services/servers/health.ts";
import { times } from "../../support/tally.ts";

test("gRPC health: concurrent checks and watches check each dependency once", async () => {
  let checks = 0;
  const database = async () => {
    checks += 1;
    await wait(20);
  };
  const nothing = async () => {};
  const handler = healthHandler(
    healthChecks({ database, cache: nothing, mail: nothing }),
    () => false,
  );
  const health = createClient(
    Health,
    createRouterTransport((router) => router.service(Health, handler)),
  );
  const checked = times(200, () => health.check({}));
  const watched = times(200, async () => {
    for await (const { status } of health.watch({ service: "database" })) return { status };
  });
  for (const answer of await Promise.all([...checked, ...watched]))
    expect(answer).toMatchObject({ status: Status.SERVING });
  expect(checks).toBeLessThan(5);
});

test("gRPC health: a gauge that fails or hangs is reported as NaN, and does not block the metrics", async () => {
  const metrics = createMetrics();
  metrics.gauge("failing", "Fails.", () => Promise.reject(new Error("away")));
  metrics.gauge("hanging", "Never comes.", () => new Promise(() => {}));
  const text = await metrics.registry.metrics();
  expect(text).toMatch(/^failing NaN$/im);
  expect(text).toMatch(/^hanging NaN$/im);
});
