import { createServer } from "node:http";
import { expect, test } from "vitest";
import { openTracing } from "../../../services/platform/telemetry/tracing.ts";
import { signInAt } from "../../support/accounts.ts";
import { conversationOf, startSuiteProvider } from "../../support/ai/calls.ts";
import { freshStorage } from "../../support/database/databases.ts";
import { createHttpClient } from "../../support/http/client.ts";
import { listen } from "../../support/network/sockets.ts";
import { startApart, startProcess } from "../../support/processes/processes.ts";
import { forSuite, forTest } from "../../support/suites.ts";

/** A span at a collector. */
type Span = {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  attributes: Record<string, unknown>;
};

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const CALLER = "b7ad6b7169203331";
const [SERVER, CLIENT] = [2, 3];
/** Input and output, and of them cached, written, written for an hour and reasoning. */
const BILLED = "case: billed 100,20,40,10,0,5";
const COUNTS = {
  input_tokens: 100,
  output_tokens: 20,
  "cache_read.input_tokens": 40,
  "cache_creation.input_tokens": 10,
  "reasoning.output_tokens": 5,
};

const simulator = await startSuiteProvider();
const spans: Span[] = [];
let received = "";
const collector = createServer(async (request, response) => {
  let body = "";
  for await (const part of request) body += part;
  received += body;
  expect(request.url).toBe("/v1/traces");
  for (const { scopeSpans } of JSON.parse(body).resourceSpans) {
    for (const { attributes, ...span } of scopeSpans[0].spans) {
      const named = attributes.map(({ key, value }: { key: string; value: object }) => [
        key,
        Object.values(value)[0],
      ]);
      spans.push({ ...span, attributes: Object.fromEntries(named) });
    }
  }
  response.writeHead(200, { "content-type": "application/json" }).end("{}");
});
const endpoint = `http://127.0.0.1:${await listen(await forSuite(collector))}`;

const settings = async () => ({
  ...(await freshStorage()),
  ...simulator.env,
  OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=trial",
  OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
});

test.each(["in one process", "apart"])(
  "Tracing, %s: a trace contains the span of each step",
  async (deployment) => {
    spans.length = 0;
    const env = await settings();
    const apart = deployment === "apart" ? await forTest(startApart(env)) : undefined;
    const running = apart ? [apart.gateway, apart.services] : [await forTest(startProcess(env))];
    const { browser, ...caller } = await signInAt(running[0]?.url ?? "");
    const headers = { ...caller.headers, traceparent: `00-${TRACE}-${CALLER}-01` };
    await browser.send("POST", "/ai/chat", conversationOf(BILLED), headers);
    await browser.send("POST", "/ai/stream", conversationOf("case: reset-midway"), headers);
    for (const each of running) expect(await each.end("SIGTERM")).toBe(0); // the last spans are sent at the end

    const all = spans.filter(({ traceId }) => traceId === TRACE);
    const statements = all.filter(({ attributes }) => "db.query.text" in attributes);
    const mine = all.filter((span) => !statements.includes(span));
    expect(mine).toHaveLength(6);
    for (const [route, rpc, status] of [
      ["/ai/chat", "Chat", "OK"],
      ["/ai/stream", "StreamChat", "INTERNAL"],
    ]) {
      const request = mine.find(({ name }) => name === `POST ${route}`);
      expect(request).toMatchObject({ parentSpanId: CALLER, kind: SERVER });
      expect(request?.attributes).toMatchObject({
        "http.route": route,
        "http.response.status_code": 200,
      });
      const call = mine.find(({ parentSpanId }) => parentSpanId === request?.spanId);
      expect(call).toMatchObject({ name: `gatehouse.ai.v1.AIService/${rpc}`, kind: SERVER });
      const failed = status === "OK" ? {} : { "error.type": status };
      expect(call?.attributes).toMatchObject({ "rpc.response.status_code": status, ...failed });
      expect(
        statements.filter(({ parentSpanId }) => parentSpanId === call?.spanId).length,
      ).toBeGreaterThan(0);
      const chat = mine.find(({ parentSpanId }) => parentSpanId === call?.spanId);
      expect(chat).toMatchObject({ name: expect.stringMatching(/^chat /), kind: CLIENT });
      expect(chat?.attributes).toMatchObject({
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.response.model": chat?.attributes["gen_ai.request.model"],
      });
      if (status === "OK") {
        expect(chat?.attributes).toMatchObject({
          "gen_ai.response.finish_reasons": { values: [{ stringValue: "stop" }] },
        });
        for (const [name, count] of Object.entries(COUNTS))
          expect(Number(chat?.attributes[`gen_ai.usage.${name}`]), name).toBe(count);
      } else expect(chat?.attributes).toMatchObject({ "error.type": "broke off" });
    }
    const login = spans.find(({ name }) => name === "POST /auth/login");
    expect(login?.parentSpanId).toBeFalsy();
    const ofLogin = spans.filter(
      ({ traceId, kind }) => traceId === login?.traceId && kind === CLIENT,
    );
    expect(ofLogin.map(({ attributes }) => attributes["db.query.text"]).join()).toMatch(
      /insert into sessions/i,
    ); // of the ORM's connection, or of a prepared statement
    expect(received).toMatch(/"deployment.environment.name","value":\{"stringValue":"trial"/);
    expect(received).not.toMatch(/ann@example|simulated-key|Correct-horse|case: /);
  },
);

test("Tracing: the trace of an unsampled caller stays unsampled, and an invalid header is ignored", async () => {
  const tracing = await openTracing("http://127.0.0.1:9", "gatehouse");
  const begin = (parent: string) => tracing?.start("span", "SERVER", parent, {}).traceparent;
  expect(begin(`00-${TRACE}-${CALLER}-01`)).toMatch(new RegExp(`^00-${TRACE}-(?!${CALLER}).*-01$`));
  expect(begin(`00-${TRACE}-${CALLER}-00`)).toMatch(new RegExp(`^00-${TRACE}-.*-00$`));
  const zeros = [`00-${TRACE}-${"0".repeat(16)}-01`, `00-${"0".repeat(32)}-${CALLER}-01`];
  for (const odd of ["", ...zeros, `${TRACE}-${CALLER}`])
    expect(begin(odd)).not.toMatch(new RegExp(`${TRACE}|00-0{32}`));
  await tracing?.close();
});

test("Tracing: a collector that does not respond blocks neither requests nor the shutdown", async () => {
  const mute = createServer(() => {});
  const OTEL_EXPORTER_OTLP_ENDPOINT = `http://127.0.0.1:${await listen(mute)}`;
  const service = await forTest(
    startProcess({ ...(await settings()), OTEL_EXPORTER_OTLP_ENDPOINT }),
  );
  for (const _ of Array(20))
    expect((await createHttpClient(service.url).get("/health/live")).status).toBe(200);
  const startedAt = performance.now();
  expect(await service.end("SIGTERM")).toBe(0);
  expect(performance.now() - startedAt).toBeLessThan(6_000); // an exporter without a limit takes ten seconds
  mute.closeAllConnections();
  mute.close();
});
