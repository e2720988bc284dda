import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { expect, test } from "vitest";
import { AuthService } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import {
  Health,
  HealthCheckResponse_ServingStatus as Status,
} from "../../gen/health/v1/health_pb.ts";
import { PREFIX } from "../../scripts/simulators/script.ts";
import { signInAt } from "../support/accounts.ts";
import { conversationOf, eventsIn, startSuiteProvider } from "../support/ai/calls.ts";
import { freshStorage } from "../support/database/databases.ts";
import { postJson } from "../support/http/client.ts";
import { startApart, startServices } from "../support/processes/processes.ts";
import { forTest } from "../support/suites.ts";
import { times } from "../support/tally.ts";
import { until } from "../support/until.ts";

const CALLS = 4;
/** The limit of a shutdown, including the grace period and the delays of a busy machine. */
const SOON_MS = 10_000;

const simulator = await startSuiteProvider();

test.each([
  ["SIGTERM", 0],
  ["SIGKILL", "SIGKILL"],
] as const)(
  "Remote services that end with %s leave every call with a response: 503, or an error event and [DONE]",
  async (signal, code) => {
    const env = { ...(await freshStorage()), SHUTDOWN_TIMEOUT: "500ms", ...simulator.env };
    const { services, gateway } = await forTest(startApart(env));
    const { accessToken } = await signInAt(gateway.url);
    const ask = (path: string, content: string) =>
      postJson(gateway.url + path, conversationOf(content), accessToken);
    const before = simulator.requests.length;
    const chats = times(CALLS, () => ask("/ai/chat", "case: silent"));
    const streams = await Promise.all(times(CALLS, () => ask("/ai/stream", "case: silent-midway")));
    await until(
      "every call to be at the provider",
      () => simulator.requests.length === before + 2 * CALLS,
    );
    const endedAt = performance.now();
    expect(await services.end(signal)).toBe(code);
    for (const answer of await Promise.all(chats)) {
      expect(await answer.json()).toMatchObject({ statusCode: 503, code: "UNAVAILABLE" });
      expect(answer.headers.get("retry-after")).toBe("1");
    }
    for (const stream of streams) {
      expect(eventsIn(await stream.text())).toEqual({
        text: PREFIX,
        error: expect.stringMatching(/try again/),
      });
    }
    expect(performance.now() - endedAt).toBeLessThan(SOON_MS);
  },
);

test("gRPC health: Watch streams report a shutdown and do not delay it", async () => {
  const services = await startServices({ ...(await freshStorage()), SHUTDOWN_TIMEOUT: "50s" });
  const health = createClient(Health, createGrpcTransport({ baseUrl: `http://${services.url}` }));
  const received: Record<string, Status[]> = {
    "": [],
    [AuthService.typeName]: [],
    cache: [],
    nothing: [],
  };
  const watches = Object.entries(received).map(async ([service, statuses]) => {
    for await (const { status } of health.watch({ service })) statuses.push(status);
  });
  await until("the watches to begin", () =>
    Object.values(received).every(({ length }) => length === 1),
  );
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
