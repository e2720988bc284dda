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

  test("is ok if every part is ok", async () => {
    await open([]);
    expect(await server.send("GET", "/health")).toMatchObject({
      status: 200,
      body: {
        status: "ok",
        version: "0.1.0",
        uptime: expect.any(Number),
        checks: { database: ok, cache: ok, mail: ok },
      },
    });
    expect(await server.send("GET", "/health/live")).toMatchObject({ status: 200, body: { status: "ok" } });
    expect(await server.send("GET", "/health/ready")).toMatchObject({ status: 200, body: { status: "ok" } });
    expect(await server.send("GET", "/health/database")).toMatchObject({ status: 200, body: ok });
    expect(await server.send("GET", "/health/cache")).toMatchObject({ status: 200, body: ok });
  });

  test("is degraded, and ready, without cache and mail", async () => {
    await open(["cache", "mail"]);
    const checks = { database: ok, cache: down, mail: down };
    expect(await server.send("GET", "/health")).toMatchObject({ status: 200, body: { status: "degraded", checks } });
    expect(await server.send("GET", "/health/ready")).toMatchObject({
      status: 200,
      body: { status: "degraded", checks },
    });
    expect(await server.send("GET", "/health/cache")).toMatchObject({ status: 503, body: down });
    expect(await server.send("GET", "/health/database")).toMatchObject({ status: 200 });
  });

  test("is down, and not ready, without a database", async () => {
    await open(["database"]);
    expect(await server.send("GET", "/health")).toMatchObject({ status: 503, body: { status: "down" } });
    expect(await server.send("GET", "/health/ready")).toMatchObject({ status: 503, body: { status: "down" } });
    expect(await server.send("GET", "/health/database")).toMatchObject({ status: 503, body: down });
    expect(await server.send("GET", "/health/live")).toMatchObject({ status: 200 });
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
