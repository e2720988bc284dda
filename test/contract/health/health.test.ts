import { Code, ConnectError } from "@connectrpc/connect";
import { afterEach, describe, expect, test } from "vitest";
import { UserService } from "../../../gen/gatehouse/account/v1/user_service_pb.ts";
import { Health, HealthCheckResponse_ServingStatus as ServingStatus } from "../../../gen/health/v1/health_pb.ts";
import { type Settings, type Started, start, transportKinds } from "../../support/gateway.ts";

describe.each(transportKinds)("GET /health %s", (transportKind) => {
  let server: Started;
  afterEach(() => server.close());
  /** Starts services. @param away the unavailable parts */
  const open = async (away: string[], settings: Settings = {}) => {
    server = await start(
      (router) =>
        router
          .service(Health, {
            check: ({ service }, context) => {
              if (service === "hanging") throw new ConnectError("no such part", Code.NotFound);
              context.responseHeader.set("x-gatehouse-latency-ms", "1.25");
              return { status: away.includes(service) ? ServingStatus.NOT_SERVING : ServingStatus.SERVING };
            },
          })
          .service(UserService, { getProfile: () => ({ user: {} }) }),
      { transportKind, ...settings },
    );
  };
  const ok = { status: "ok", latencyMs: expect.closeTo(1.3, 5) };
  const down = { ...ok, status: "down" };

  const expectEach = async (answers: [path: string, status: number, body?: object][]) => {
    for (const [path, status, body = {}] of answers)
      expect(await server.send("GET", path), path).toMatchObject({ status, body });
  };

  test("is ok if every part is ok", async () => {
    await open([]);
    const state = { version: "0.1.0", uptime: expect.any(Number), checks: { database: ok, cache: ok, mail: ok } };
    await expectEach([
      ["/health", 200, { status: "ok", ...state }],
      ["/health/live", 200, { status: "ok" }],
      ["/health/ready", 200, { status: "ok" }],
      ["/health/database", 200, ok],
      ["/health/cache", 200, ok],
    ]);
  });

  test("is degraded, and ready, without cache and mail", async () => {
    await open(["cache", "mail"]);
    const degraded = { status: "degraded", checks: { database: ok, cache: down, mail: down } };
    await expectEach([
      ["/health", 200, degraded],
      ["/health/ready", 200, degraded],
      ["/health/cache", 503, down],
      ["/health/database", 200],
    ]);
  });

  test("is down, and not ready, without a database", async () => {
    await open(["database"]);
    await expectEach([
      ["/health", 503, { status: "down" }],
      ["/health/ready", 503, { status: "down" }],
      ["/health/database", 503, down],
      ["/health/live", 200],
    ]);
  });
});

test("GET /health/ready: is 503 without services, within the time limit of a check", async () => {
  const server = await start((router) => router.service(UserService, {}), { transportKind: "over gRPC" });
  await server.stopServices();
  expect(await server.send("GET", "/health/ready")).toMatchObject({ status: 503, body: { status: "down" } });
  expect(await server.send("GET", "/health/live")).toMatchObject({ status: 200 });
  await server.close();
});

test("GET /health/ready: is 503 while services do not respond", async () => {
  const server = await start((router) => router.service(Health, { check: () => new Promise(() => {}) }));
  const started = performance.now();
  expect(await server.send("GET", "/health/ready")).toMatchObject({ status: 503 });
  expect(performance.now() - started).toBeLessThan(3_000);
  await server.close();
});
