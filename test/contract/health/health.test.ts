import type { ServiceImpl } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { UserService } from "../../../gen/gatehouse/account/v1/user_service_pb.ts";
import {
  Health,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from "../../../gen/health/v1/health_pb.ts";
import { start, transportKinds } from "../../support/http/gateway.ts";
import { forTest } from "../../support/suites.ts";

const ok = { status: "ok", latencyMs: expect.closeTo(1.3, 5) };
const down = { ...ok, status: "down" };
const healthy = {
  version: "0.1.0",
  uptime: expect.any(Number),
  checks: { database: ok, cache: ok, mail: ok },
};
const degraded = { status: "degraded", checks: { database: ok, cache: down, mail: down } };

/** The parts that are away, and answers by path. */
const cases: [
  what: string,
  away: string[],
  answers: [path: string, status: number, body?: object][],
][] = [
  [
    "is ok if every part is ok",
    [],
    [
      ["/health", 200, { status: "ok", ...healthy }],
      ["/health/live", 200, { status: "ok" }],
      ["/health/ready", 200, { status: "ok" }],
      ["/health/database", 200, ok],
      ["/health/cache", 200, ok],
    ],
  ],
  [
    "is degraded, and ready, without cache and mail",
    ["cache", "mail"],
    [
      ["/health", 200, degraded],
      ["/health/ready", 200, degraded],
      ["/health/cache", 503, down],
      ["/health/database", 200],
    ],
  ],
  [
    "is down, and not ready, without a database",
    ["database"],
    [
      ["/health", 503, { status: "down" }],
      ["/health/ready", 503, { status: "down" }],
      ["/health/database", 503, down],
      ["/health/live", 200],
    ],
  ],
];

describe.each(transportKinds)("GET /health %s", (transportKind) => {
  test.each(cases)("%s", async (_what, away, answers) => {
    const check: ServiceImpl<typeof Health>["check"] = ({ service }, { responseHeader }) => {
      responseHeader.set("x-gatehouse-latency-ms", "1.25");
      return { status: away.includes(service) ? ServingStatus.NOT_SERVING : ServingStatus.SERVING };
    };
    const server = await forTest(
      start((router) => router.service(Health, { check }), { transportKind }),
    );
    for (const [path, status, body = {}] of answers)
      expect(await server.send("GET", path), path).toMatchObject({ status, body });
  });
});

test("GET /health/ready: is 503 without services", async () => {
  const server = await forTest(
    start((router) => router.service(UserService, {}), { transportKind: "over gRPC" }),
  );
  await server.stopServices();
  expect(await server.send("GET", "/health/ready")).toMatchObject({
    status: 503,
    body: { status: "down" },
  });
  expect(await server.send("GET", "/health/live")).toMatchObject({ status: 200 });
});

test("GET /health/ready: is 503 within three seconds if services do not respond", async () => {
  const server = await forTest(
    start((router) => router.service(Health, { check: () => new Promise(() => {}) })),
  );
  const started = performance.now();
  expect(await server.send("GET", "/health/ready")).toMatchObject({ status: 503 });
  expect(performance.now() - started).toBeLessThan(3_000);
});
