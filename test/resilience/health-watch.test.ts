import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { expect, test } from "vitest";
import { AuthService } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { Health, HealthCheckResponse_ServingStatus as Status } from "../../gen/health/v1/health_pb.ts";
import { freshStorage } from "../support/databases.ts";
import { startServices } from "../support/deployment.ts";
import { until } from "../support/until.ts";

/** The limit of a shutdown, including the delays of a busy machine. */
const SOON_MS = 10_000;

test("gRPC health: Watch streams report a shutdown and do not delay it", async () => {
  const env = { ...(await freshStorage()), INTERNAL_SECRET: "between-gateway-and-services", SHUTDOWN_TIMEOUT: "50s" };
  const services = await startServices(env);
  const health = createClient(Health, createGrpcTransport({ baseUrl: `http://${services.url}` }));
  const received: Record<string, Status[]> = { "": [], [AuthService.typeName]: [], cache: [], nothing: [] };
  const watches = Object.entries(received).map(async ([service, statuses]) => {
    for await (const { status } of health.watch({ service })) statuses.push(status);
  });
  await until("the watches to begin", () => Object.values(received).every(({ length }) => length === 1));
  const started = performance.now();
  expect(await services.end("SIGTERM")).toBe(0);
  expect(performance.now() - started).toBeLessThan(SOON_MS);
  await Promise.all(watches);
  expect(received).toEqual({
    "": [Status.SERVING, Status.NOT_SERVING],
    [AuthService.typeName]: [Status.SERVING, Status.NOT_SERVING],
    cache: [Status.SERVING],
    nothing: [Status.SERVICE_UNKNOWN],
  });
});
