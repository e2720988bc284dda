import { once } from "node:events";
import http2 from "node:http2";
import { Code } from "@connectrpc/connect";
import { beforeEach, describe, expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { createAdmission } from "../../../services/platform/gate/admission.ts";
import { listenGrpc } from "../../../services/servers/grpc-server.ts";
import { startSuiteApp } from "../../support/app.ts";
import {
  answerTo,
  CHAT,
  chatFrame,
  failureOf,
  framed,
  head,
  PROFILE,
  REFLECTION,
  STREAM,
  send,
} from "../../support/grpc.ts";
import { tally, times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";

const env = { GRPC_REFLECTION: "off", RATE_LIMITS: "off" };
const timeouts = { requestMs: 2_000, writeMs: 500, idleMs: 1_500, reflectionMs: 500 };
const app = await startSuiteApp({
  env,
  timeouts,
  admission: createAdmission({ budgetBytes: 30_000_000 }),
});

/**
 * Opens a connection of a new user.
 * @returns it with the header of its token
 */
async function connect() {
  const { headers } = await app.signIn();
  return { session: http2.connect(app.grpcUrl), caller: headers };
}

describe.concurrent.each([
  [PROFILE, "application/grpc"],
  [PROFILE, "application/grpc-web"],
  [PROFILE, "application/proto"],
  [STREAM, "application/grpc"],
  [STREAM, "application/connect+json"],
])("gRPC request timeout of %s as %s", (path, type) => {
  test.each([
    ["has not begun", new Uint8Array()],
    ["has not ended", new Uint8Array(1)],
  ])("ends the call if its body %s", async (_what, part) => {
    const { session, caller } = await connect();
    const stream = session.request(head(path, { ...caller, "content-type": type }));
    if (part.length > 0) stream.write(part);
    const closed = once(stream, "close"); // by the server, while the client still sends
    const [answer] = await Promise.all([answerTo(stream), closed]);
    expect(failureOf(answer)).toEqual({
      code: Code.DeadlineExceeded,
      reason: Reason.REQUEST_TIMEOUT,
    });
    expect(stream.rstCode).toBe(http2.constants.NGHTTP2_NO_ERROR);
    session.destroy();
  });
});

describe("gRPC port", () => {
  let session: http2.ClientHttp2Session;
  let caller: Record<string, string>;
  beforeEach(async () => {
    ({ session, caller } = await connect());
    return () => session.destroy();
  });
  const open = (path: string, from = session) => from.request(head(path, caller));

  test("a call whose body never ends is ended", async () => {
    const stream = open(STREAM);
    stream.on("error", () => {}); // of writes to the closed stream
    const drops = setInterval(() => stream.write(new Uint8Array(1)), 1);
    stream.on("close", () => clearInterval(drops));
    expect(failureOf(await answerTo(stream)).reason).toBe(Reason.REQUEST_TIMEOUT);
  });

  test("the large requests of a caller are limited to its share of memory, and small ones accepted", async () => {
    const send = (path: string, size: number) => {
      const stream = open(path);
      stream.write(framed(Buffer.alloc(size), { length: size + 1 }));
      return answerTo(stream).then((answer) => failureOf(answer).reason);
    };
    const large = times(20, () => send(CHAT, 600_000));
    expect(await send(PROFILE, 10)).toBe(Reason.REQUEST_TIMEOUT);
    const reasons = tally(await Promise.all(large), (reason) => String(reason));
    expect(reasons[Reason.REQUEST_TIMEOUT]).toBeGreaterThan(0);
    expect(reasons[Reason.TOO_MANY_CONCURRENT]).toBe(20 - Number(reasons[Reason.REQUEST_TIMEOUT]));
    expect(reasons[Reason.TOO_MANY_CONCURRENT]).toBeGreaterThan(5);
    expect(await send(CHAT, 200_000)).toBe(Reason.REQUEST_TIMEOUT); // the share is free again
  });

  test("a stream that its client does not read is ended, and so is its request to the provider", async () => {
    const stream = open(STREAM);
    stream.end(chatFrame("case: endless"));
    await once(stream, "close");
    expect(stream.rstCode).toBe(http2.constants.NGHTTP2_CANCEL);
    await until("the usage of the end", async () => {
      const [row] = await app.sql<{ outcome: string }>("select outcome from ai_usage");
      return row?.outcome === "cancelled";
    });
  });

  /** Asks a provider that is silent for longer than a client may be. */
  const ask = (from: http2.ClientHttp2Session, argument: number) =>
    open(CHAT, from).end(chatFrame(`case: retry-after ${argument}`));

  test("a provider may be silent longer than a client", async () => {
    expect((await answerTo(ask(session, 2_500))).trailers).toMatchObject({ "grpc-status": "0" });
  });

  test("a call that its client does not read is ended once the provider has been silent", async () => {
    const reader = http2.connect(app.grpcUrl, { settings: { initialWindowSize: 0 } });
    const stream = ask(reader, 1_500);
    await once(stream, "close");
    expect(stream.rstCode).toBe(http2.constants.NGHTTP2_CANCEL);
    reader.destroy();
  });

  test("reflection is unimplemented if it is off", async () => {
    const stream = session.request(head(REFLECTION));
    expect(await answerTo(stream.end())).toMatchObject({
      status: 200,
      text: "",
      trailers: { "grpc-status": String(Code.Unimplemented) },
    });
  });

  test("a connection is closed after the idle timeout", async () => {
    await once(session, "close");
    expect(session.destroyed).toBe(true);
  });
});

test("gRPC port: a unary call ends at its deadline and at the end of a shutdown, even if its handler never returns", async () => {
  const config = { grpcHost: "127.0.0.1", grpcPort: 0, grpcReflection: false, tls: {} };
  const chat = () => new Promise<never>(() => {});
  const server = await listenGrpc(
    { routes: (router) => router.service(AIService, { chat }), interceptors: [] },
    config,
  );
  const client = http2.connect(`http://127.0.0.1:${server.port}`);
  const call = (headers = {}) =>
    send(client, head(CHAT, headers), framed(new Uint8Array())).then(failureOf);
  const open = call();
  expect(await call({ "grpc-timeout": "100m" })).toMatchObject({ code: Code.DeadlineExceeded });
  await server.close(0);
  expect(await open).toEqual({ code: Code.Unavailable, reason: Reason.UNAVAILABLE });
  client.destroy();
});
