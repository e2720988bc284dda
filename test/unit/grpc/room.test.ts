import { once } from "node:events";
import http2 from "node:http2";
import { create, toBinary } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { createAsyncIterable } from "@connectrpc/connect/protocol";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { ChatRequestSchema } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { readBody } from "../../../services/grpc/body.ts";
import { openRoom, type Place } from "../../../services/process/room.ts";
import { startApp, type TestApp } from "../../support/app.ts";
import { answerTo, failureOf, framed, type RawAnswer } from "../../support/raw-grpc.ts";
import { times, until } from "../../support/until.ts";

const REFUSED = http2.constants.NGHTTP2_REFUSED_STREAM;

let app: TestApp;
beforeAll(async () => {
  app = await startApp({ env: { RATE_LIMITS: "off" }, room: openRoom(10_000_000) });
});
afterAll(() => app.close());

describe("the room of the gRPC door", () => {
  let session: http2.ClientHttp2Session;
  let head: http2.OutgoingHttpHeaders;
  beforeEach(async () => {
    const { accessToken } = await app.signIn();
    session = http2.connect(app.grpcUrl);
    head = { ":method": "POST", authorization: `Bearer ${accessToken}` };
    return () => session.destroy();
  });
  const asked = (content: string, pad = "") =>
    framed(
      toBinary(
        ChatRequestSchema,
        create(ChatRequestSchema, { provider: "provider-a", messages: [{ role: "user", content }], systemPrompt: pad }),
      ),
    );
  const send = (body: Uint8Array, headers: http2.OutgoingHttpHeaders = {}) => {
    const path = "/gatehouse.ai.v1.AIService/Chat";
    const stream = session.request({ ...head, ":path": path, "content-type": "application/grpc", ...headers });
    stream.on("error", () => {}).end(body);
    return stream;
  };
  const held = () => app.providers[0]?.requests.filter(({ closedAt }) => closedAt === undefined).length;

  test("is held by large requests until they are answered or taken back", async () => {
    const large = asked("case: silent", "x".repeat(65_000));
    const calls = times(20, () => send(large));
    const refused = failureOf(await Promise.race(calls.map(answerTo)));
    expect(refused).toEqual({ code: Code.Unavailable, reason: Reason.UNAVAILABLE });
    expect((await answerTo(send(asked("case: plain")))).trailers).toMatchObject({ "grpc-status": "0" });
    for (const call of calls) call.close(http2.constants.NGHTTP2_CANCEL);
    await until("the provider to be left", () => held() === 0);
    const answered = await answerTo(send(asked("case: plain", "x".repeat(65_000))));
    expect(answered.trailers).toMatchObject({ "grpc-status": "0" });
  });

  test("is given up by those who have been sending the longest, for whoever comes", async () => {
    const path = "/gatehouse.ai.v1.AIService/Chat";
    const slow = times(20, () => {
      const stream = session.request({ ...head, ":path": path, "content-type": "application/grpc" });
      stream.on("error", () => {}).write(framed(Buffer.alloc(100_000), { length: 100_001 }));
      return stream;
    });
    const [first] = slow.map(answerTo);
    const answered = await answerTo(send(asked("case: plain", "x".repeat(65_000))));
    expect(answered.trailers).toMatchObject({ "grpc-status": "0" });
    expect(failureOf((await first) as RawAnswer).reason).toBe(Reason.UNAVAILABLE);
    for (const stream of slow) stream.close(http2.constants.NGHTTP2_CANCEL);
  });

  test("is kept from compressed requests that may become too large for it", async () => {
    const sent = send(asked("case: plain", "x".repeat(3_000)), { "grpc-encoding": "gzip" });
    expect(failureOf(await answerTo(sent)).reason).toBe(Reason.UNAVAILABLE);
  });

  test("is not filled by small requests that wait: more are refused as unprocessed, and others go on", async () => {
    const calls = times(200, () => send(asked("case: silent")));
    const refused = calls.filter((call) => once(call, "close").catch(() => {}));
    await until("some to be refused", () => refused.some(({ rstCode, closed }) => closed && rstCode === REFUSED));
    await until("others to wait", () => Number(held()) > 50);
    expect(held()).toBeLessThan(150);
    await app.signIn();
    for (const call of calls) call.close(http2.constants.NGHTTP2_CANCEL);
    await until("the provider to be left", () => held() === 0);
  });
});

test("a body that goes on after its time takes no room from others", async () => {
  const room = openRoom(2_000_000);
  const enter = () => room.enter({ use: "patient", answerBytes: 0 }) as Place;
  const gate = Promise.withResolvers<void>();
  let isRead = false;
  async function* late() {
    yield new Uint8Array(50_000);
    await gate.promise;
    yield new Uint8Array(50_000);
    isRead = true;
  }
  const most = 1_000_000;
  const first = readBody({ parts: late(), most, growth: 1, place: enter() }, 20);
  await expect(first).rejects.toMatchObject({ code: Code.DeadlineExceeded });
  gate.resolve();
  await new Promise((resolve) => setImmediate(resolve));
  const parts = createAsyncIterable([new Uint8Array(150_000)]);
  expect(await readBody({ parts, most, growth: 1, place: enter() }, 1_000)).toHaveLength(150_000);
  expect(isRead).toBe(false);
});
