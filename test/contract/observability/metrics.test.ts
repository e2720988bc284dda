import { expect, test } from "vitest";
import { signInAt } from "../../support/accounts.ts";
import { conversationOf, startSuiteProvider } from "../../support/ai/calls.ts";
import { freshStorage } from "../../support/database/databases.ts";
import { CHAT, framed, grpcUrlIn, head, LOGIN, send, withSession } from "../../support/grpc.ts";
import { createHttpClient } from "../../support/http/client.ts";
import { freePort } from "../../support/network/sockets.ts";
import { readMetrics, startApart, startProcess } from "../../support/processes/processes.ts";
import { forTest } from "../../support/suites.ts";
import { until } from "../../support/until.ts";

const simulator = await startSuiteProvider();

/** The sum of the counts of a histogram with these labels. */
const countOf = (metrics: Map<string, number>, name: string, ...labels: string[]) =>
  [...metrics]
    .filter(
      ([key]) => key.startsWith(`${name}_count`) && labels.every((label) => key.includes(label)),
    )
    .reduce((sum, [, count]) => sum + count, 0);

/** Bounds that the semantic conventions for generative AI recommend. */
const SECONDS =
  "0.01 0.02 0.04 0.08 0.16 0.32 0.64 1.28 2.56 5.12 10.24 20.48 40.96 81.92 +Inf".split(" ");
const TOKENS =
  "1 4 16 64 256 1024 4096 16384 65536 262144 1048576 4194304 16777216 67108864 +Inf".split(" ");

/**
 * Unreadable gRPC calls. Connect reads the body of unary calls before the interceptors, that of
 * streams within them.
 */
const UNREADABLE = [LOGIN, "/gatehouse.ai.v1.AIService/StreamChat"];

/** Sends some requests. */
async function sendRequests(url: string, grpcUrl: string): Promise<void> {
  const { headers, get, post } = await signInAt(url);
  await withSession(grpcUrl, async (session) => {
    for (const path of UNREADABLE)
      await send(session, head(path, headers), framed(Buffer.from("unreadable")));
  });
  for (const path of ["/ai/chat", "/ai/stream"]) await post(path, conversationOf("case: plain"));
  await post("/ai/chat", conversationOf("case: bad-key"));
  await get("/no/such/path-secret");
}

function expectServices(metrics: Map<string, number>): void {
  const unreadable = UNREADABLE.map((path) => [path.slice(1), "INVALID_ARGUMENT"]);
  for (const [method, status] of [
    [CHAT.slice(1), "OK"],
    [CHAT.slice(1), "INTERNAL"],
    ...unreadable,
  ])
    expect(
      countOf(metrics, "rpc_server_call_duration_seconds", `rpc_method="${method}"`, `"${status}"`),
    ).toBe(1);
  const labels = [
    'gen_ai_operation_name="chat"',
    'gen_ai_provider_name="openai"',
    "gen_ai_request_model=",
  ];
  const operations = "gen_ai_client_operation_duration_seconds";
  expect(countOf(metrics, operations, ...labels)).toBe(3);
  expect(countOf(metrics, operations, ...labels, 'error_type="refused the key"')).toBe(1);
  expect(countOf(metrics, "gen_ai_client_operation_time_to_first_chunk_seconds", ...labels)).toBe(
    1,
  );
  expect(
    countOf(metrics, "gen_ai_client_token_usage", ...labels, 'gen_ai_token_type="output"'),
  ).toBe(2);
  for (const phase of ["request", "reply"])
    expect(countOf(metrics, "gatehouse_ai_overhead_seconds", `phase="${phase}"`)).toBe(3);
  const bounds = (name: string) =>
    [...metrics.keys()].flatMap((key) =>
      key.startsWith(`${name}_bucket`) ? [/le="(.*?)"/.exec(key)?.[1]] : [],
    );
  expect(bounds("gen_ai_client_operation_time_to_first_chunk_seconds")).toEqual(SECONDS);
  expect(new Set(bounds(operations))).toEqual(new Set(SECONDS));
  expect(new Set(bounds("gen_ai_client_token_usage"))).toEqual(new Set(TOKENS));
  const queues = [
    "mail_queue_depth",
    "mail_queue_lag_seconds",
    "password_hashes_waiting",
    "audit_unsealed_events",
  ];
  for (const gauge of [
    ...queues.map((name) => `gatehouse_${name}`),
    "db_client_connection_pending_requests",
  ])
    expect(metrics.get(gauge)).toBeGreaterThanOrEqual(0);
  for (const dependency of ["database", "cache", "mail"])
    expect(metrics.get(`gatehouse_dependency_up{dependency="${dependency}"}`)).toBe(1);
  const connections = (state: string) =>
    Number(metrics.get(`db_client_connection_count{db_client_connection_state="${state}"}`));
  expect(connections("used") + connections("idle")).toBeGreaterThan(0);
}

function expectGateway(metrics: Map<string, number>): void {
  const name = "http_server_request_duration_seconds";
  const chat = ['http_request_method="POST"', 'http_route="/ai/chat"'];
  for (const [status, ...labels] of [["200", ...chat], ["500", ...chat], ["404"]])
    expect(countOf(metrics, name, ...labels, `http_response_status_code="${status}"`)).toBe(1);
  expect(metrics.get("http_server_active_requests")).toBe(0);
  expect(metrics.get("process_resident_memory_bytes")).toBeGreaterThan(0);
  expect([...metrics.keys()].join()).not.toMatch(/secret|@/);
}

test.each(["one process", "gateway and services"])(
  "GET /metrics: contains the metrics of %s",
  async (deployment) => {
    const [port, servicesPort] = await Promise.all([freePort(), freePort()]);
    const isApart = deployment !== "one process";
    const shared = { ...(await freshStorage()), ...simulator.env };
    const { gateway, services } = isApart
      ? await forTest(startApart({ ...shared, METRICS_PORT: servicesPort }, { METRICS_PORT: port }))
      : {
          gateway: await forTest(startProcess({ ...shared, METRICS_PORT: port })),
          services: undefined,
        };
    await sendRequests(
      gateway.url,
      services ? `http://${services.url}` : grpcUrlIn(gateway.output()),
    );
    const metrics = await until("the last request", async () => {
      const seen = await readMetrics(port);
      return countOf(seen, "http_server_request_duration_seconds", '"404"') > 0 ? seen : undefined;
    });
    expectGateway(metrics);
    expectServices(isApart ? await readMetrics(servicesPort) : metrics);
    if (isApart) expect(countOf(metrics, "rpc_server_call_duration_seconds")).toBe(0);
    expect((await createHttpClient(gateway.url).get("/metrics")).status).toBe(404);
    for (const each of services ? [gateway, services] : [gateway])
      expect(await each.end("SIGTERM")).toBe(0);
  },
);

test("GET /metrics: counts registrations, sign-ins, lockouts and e-mails, starting at 0", async () => {
  const port = await freePort();
  const server = await forTest(startProcess({ ...(await freshStorage()), METRICS_PORT: port }));
  const names = [
    ...["register", "login", "login_failed", "locked"].map(
      (event) => `gatehouse_audit_events_total{event="auth.${event}"}`,
    ),
    'gatehouse_emails_total{outcome="sent"}',
    'gatehouse_emails_total{outcome="failed"}',
  ];
  const counts = async () => {
    const metrics = await readMetrics(port);
    return names.map((name) => metrics.get(name));
  };
  expect(await counts()).toEqual([0, 0, 0, 0, 0, 0]);
  await signInAt(server.url);
  await until("the counts", async () => {
    const [registered, signedIn, , , sent] = await counts();
    return registered === 1 && signedIn === 1 && sent === 1;
  });
  expect((await counts()).slice(2, 4)).toEqual([0, 0]);
});
