import { once } from "node:events";
import http2 from "node:http2";
import { type CallOptions, Code, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { expect, onTestFinished, test, vi } from "vitest";
import { createServicesTransport } from "../../../gateway/transport/services.ts";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { conversationOf } from "../../support/ai/calls.ts";
import { testApp } from "../../support/app.ts";
import {
  bomb,
  chatFrame,
  failureOf,
  framed,
  GZIP,
  head,
  LOGIN,
  questions,
  REFLECTION,
  send,
  withSession,
} from "../../support/grpc.ts";
import { randomAddress } from "../../support/http/client.ts";
import { times } from "../../support/tally.ts";
import { until, untilStill } from "../../support/until.ts";

const app = await testApp();
const question = questions(1);
const large = conversationOf("x".repeat(250_000));

test.each([
  ["refused", "a client's connection", "streamChat", createGrpcTransport({ baseUrl: app.grpcUrl })],
  ["refused", "a gateway's connections", "streamChat", createServicesTransport(app.grpcUrl)],
  ["aborted", "a gateway's connections", "streamChat", createServicesTransport(app.grpcUrl)],
  ["aborted", "a gateway's connections", "chat", createServicesTransport(app.grpcUrl)],
] as const)(
  "gRPC port: %s large requests do not block %s: %s",
  { timeout: 60_000 },
  async (fate, _, rpc, transport) => {
    const client = createClient(AIService, transport);
    const read = async (message: typeof large, options: CallOptions = {}) => {
      if (rpc === "chat") return (await client.chat(message, options)).content;
      for await (const { chunk } of client.streamChat(message, options)) if (chunk) return chunk;
    };
    for (let round = 0; round < 15; round++) {
      const optionsOf = (i: number) =>
        fate === "aborted" ? { signal: AbortSignal.timeout(i % 5) } : {};
      const failure = fate === "refused" ? { code: Code.Unauthenticated } : {};
      await Promise.all(
        times(20, (i) => expect(read(large, optionsOf(i))).rejects.toMatchObject(failure)),
      );
    }
    const { headers } = await app.signIn();
    for (let i = 0; i < 8; i++)
      expect(await read(conversationOf("case: plain"), { headers })).toBeTruthy();
  },
);

test("gRPC port: aborted responses do not block their connection", async () => {
  const session = http2.connect(app.grpcUrl, { settings: { initialWindowSize: 1_000 } });
  for (let i = 0; i < 300; i++) {
    const stream = session.request(head(REFLECTION));
    stream.write(question);
    const [first] = await once(stream, "response");
    expect(first[":status"]).toBe(200);
    stream.close(http2.constants.NGHTTP2_CANCEL);
    await once(stream, "close");
  }
  session.close();
});

test.each([
  ["resets it", (stream: http2.ClientHttp2Stream) => stream.close(http2.constants.NGHTTP2_CANCEL)],
  ["ends it in the middle", (stream: http2.ClientHttp2Stream) => stream.end()],
  ["cuts the connection", (stream: http2.ClientHttp2Stream) => stream.session?.destroy()],
])("gRPC reflection: a client that %s causes no error in the log", async (_what, leave) => {
  const logged = app.logs.length;
  for (const sent of [new Uint8Array(), new Uint8Array(2), question]) {
    const session = http2.connect(app.grpcUrl).on("error", () => {});
    const stream = session.request(head(REFLECTION));
    stream.on("error", () => {}).resume();
    if (sent.length > 0) stream.write(sent);
    await new Promise((resolve) => setTimeout(resolve, 50));
    leave(stream);
    await once(stream, "close");
    session.destroy();
  }
  const lines = () => app.logs.slice(logged).filter((line) => line.includes("ServerReflection"));
  await until("the calls to end", () => lines().length >= 3);
  expect(lines().filter((line) => line.includes('"level":50'))).toEqual([]);
});

test("gRPC port: a thousand calls that wait for a provider do not delay others, and do not listen to the same signal", async () => {
  const listened = vi.spyOn(EventTarget.prototype, "addEventListener"); // each start and end would search all listeners
  onTestFinished(() => listened.mockRestore());
  const transport = createServicesTransport(app.grpcUrl);
  const leaving = new AbortController();
  const { chat } = createClient(AIService, transport);
  for (const { headers } of await Promise.all(times(12, () => app.signIn()))) {
    const options = { signal: leaving.signal, headers };
    for (let i = 0; i < 90; i++) chat(conversationOf("case: silent"), options).catch(() => {});
  }
  const waiting = () =>
    app.providers[0]?.requests.filter(({ closedAt }) => closedAt === undefined).length ?? 0;
  await until("a thousand calls to wait", () => waiting() >= 1_000);
  await createClient(AuthService, transport).listKeys({}, { timeoutMs: 5_000 });
  const targets = listened.mock.contexts.filter((target) => target !== leaving.signal);
  const counts = [...Map.groupBy(targets, (target) => target).values()].map(({ length }) => length);
  expect(Math.max(...counts)).toBeLessThan(20);
  leaving.abort();
  await until("the end of the request at the provider", () => waiting() === 0);
  transport.close();
});

test("gRPC port: clients that read nothing and disconnect end their calls, and nothing is printed", async () => {
  const printed = vi.spyOn(console, "error").mockImplementation(() => {});
  onTestFinished(() => printed.mockRestore());
  const { headers } = await app.signIn();
  const upstream = app.providers[0]?.requests ?? [];
  for (const leave of ["cancel", "cancel once the provider is paused", "destroy"]) {
    const session = http2.connect(app.grpcUrl);
    const [logged, first] = [app.logs.length, upstream.length];
    const open = async (rpc: string, content: string) => {
      const stream = session
        .request(head(`/${AIService.typeName}/${rpc}`, headers))
        .on("error", () => {});
      stream.end(chatFrame(content));
      await once(stream, "response");
      return stream;
    };
    const calls = times(20, (i) =>
      i % 2 ? open("Chat", "case: large-reply 200000") : open("StreamChat", "case: endless"),
    );
    const streams = await Promise.all(calls);
    const sent = () => upstream.slice(first).reduce((sum, { sentBytes }) => sum + sentBytes, 0);
    if (leave.includes("paused")) await untilStill("the provider to be paused", sent);
    if (leave === "destroy") session.destroy();
    else for (const stream of streams) stream.close(http2.constants.NGHTTP2_CANCEL);
    const ended = () =>
      app.logs.slice(logged).filter((line) => line.includes('"rpc"') && line.includes("Chat"));
    await until("the end of the calls", () => ended().length >= 20);
    const streamed = ended().filter((line) => line.includes("StreamChat"));
    expect(streamed.map((line) => JSON.parse(line).code)).toEqual(times(10, () => "CANCELED"));
    await until("the end at the provider", () =>
      upstream.every(({ closedAt }) => closedAt !== undefined),
    );
    session.destroy();
  }
  expect(printed).not.toHaveBeenCalled();
});

test("gRPC port: compressed messages are refused without a token, and reflection is not compressed", async () => {
  await withSession(app.grpcUrl, async (session) => {
    expect(failureOf(await send(session, head(LOGIN, GZIP), bomb)).reason).toBe(
      Reason.NOT_IMPLEMENTED,
    );
    const answer = await send(
      session,
      head(REFLECTION, { "grpc-accept-encoding": "br" }),
      question,
    );
    expect([answer.status, answer.head["grpc-encoding"]]).toEqual([200, undefined]); // it would use threads of the logins
  });
});

test("gRPC port: one address can open eight health watches, and health checks still work", async () => {
  const client = { "x-forwarded-for": randomAddress() };
  await withSession(app.grpcUrl, async (session) => {
    const open = async () => {
      const stream = session
        .request(head("/grpc.health.v1.Health/Watch", client))
        .on("error", () => {});
      stream.end(framed(new Uint8Array()));
      const first = once(stream, "data").then(() => undefined);
      const refused = once(stream, "trailers").then(([trailers]) => trailers["grpc-status"]);
      return Promise.race([first, refused]);
    };
    const refused = (await Promise.all(times(30, open))).filter((status) => status !== undefined);
    expect(refused).toEqual(times(22, () => String(Code.ResourceExhausted)));
    const check = await send(
      session,
      head("/grpc.health.v1.Health/Check", client),
      framed(new Uint8Array()),
    );
    expect(check.trailers["grpc-status"]).toBe("0");
  });
});
