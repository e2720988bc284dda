import net from "node:net";
import { describe, expect, test } from "vitest";
import { UserService } from "../../gen/gatehouse/account/v1/user_service_pb.ts";
import { Health } from "../../gen/health/v1/health_pb.ts";
import { type Routes, start } from "../support/http/gateway.ts";
import { forTest } from "../support/suites.ts";
import { until } from "../support/until.ts";

describe("Shutdown", () => {
  const open = async (grace: string) => {
    const gate = Promise.withResolvers<object>();
    const calls: AbortSignal[] = [];
    const routes: Routes = (router) =>
      router.service(Health, { check: () => ({ status: 1 }) }).service(UserService, {
        getProfile: (_request, { signal }) => {
          calls.push(signal);
          return gate.promise;
        },
      });
    const server = await forTest(start(routes, { env: { SHUTDOWN_TIMEOUT: grace } }));
    const answer = server.send("GET", "/user/profile");
    await until("the request", () => calls.length === 1);
    return { server, calls, gate, answer };
  };

  test("finishes open requests, rejects new ones, and is not ready", async () => {
    const { server, gate, answer } = await open("10s");
    const drained = server.gateway.drain();
    const refused = await server.send("GET", "/user/profile");
    expect(refused).toMatchObject({
      status: 503,
      body: { statusCode: 503, code: "UNAVAILABLE", error: "Service Unavailable" },
    });
    expect(refused.headers.get("connection")).toBe("close");
    expect(await server.send("GET", "/health/ready")).toMatchObject({
      status: 503,
      body: { status: "down" },
    });
    expect(await server.send("GET", "/health/live")).toMatchObject({ status: 200 });
    expect(await server.send("GET", "/health?by=probe")).toMatchObject({
      status: 200,
      body: { status: "ok" },
    });
    gate.resolve({ user: { id: "1" } });
    expect(await answer).toMatchObject({ status: 200 });
    const answeredAt = performance.now();
    await drained;
    expect(performance.now() - answeredAt).toBeLessThan(5_000); // less than the grace period
    await expect(server.send("GET", "/health/live")).rejects.toThrow();
  });

  test("ends requests with 503 after the grace period", async () => {
    const { server, answer } = await open("50ms");
    await server.gateway.drain();
    expect(await answer).toMatchObject({ status: 503, body: { code: "UNAVAILABLE" } });
  });

  test("disconnects a body that has not arrived within the grace period", async () => {
    const server = await forTest(start(() => {}, { env: { SHUTDOWN_TIMEOUT: "0" } }));
    const socket = net.connect(server.port, "127.0.0.1").on("error", () => {});
    const head =
      "PUT /user/profile HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n";
    await new Promise<void>((resolve) => socket.write(`${head}{`, () => resolve()));
    await until("the request", async () =>
      /active_requests 1/.test(await server.gateway.metrics.metrics()),
    );
    await server.gateway.drain();
    await until("the end of the connection", () => socket.destroyed);
  });

  test("is immediate without open requests, even after requests that were answered or given up", async () => {
    const { server, calls, gate, answer } = await open("10s");
    const client = new AbortController();
    const left = fetch(`${server.url}/user/profile`, { signal: client.signal });
    await until("the second request", () => calls.length === 2);
    client.abort();
    await expect(left).rejects.toThrow();
    await until("the end of its call", () => calls[1]?.aborted);
    expect(calls[0]?.aborted).toBe(false);
    gate.resolve({});
    await answer; // the connection stays open
    const started = performance.now();
    await server.gateway.drain();
    expect(performance.now() - started).toBeLessThan(1_000);
  });
});
