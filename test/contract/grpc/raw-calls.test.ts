import http2 from "node:http2";
import { Code } from "@connectrpc/connect";
import { afterAll, expect, test, vi } from "vitest";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { testApp } from "../../support/app.ts";
import {
  answerTo,
  CHAT,
  chatFrame,
  failureOf,
  framed,
  LOGIN,
  STREAM,
  send,
} from "../../support/grpc.ts";

const app = await testApp();

const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

const session = http2.connect(app.grpcUrl);
afterAll(() => session.close());

const asJson = { ":path": LOGIN, "content-type": "application/json" };

test.each(["[", "a:99999", "%"])(
  "gRPC: the authority %s is 400, and the connection stays open",
  async (authority) => {
    const { status } = await send(session, { ...asJson, ":authority": authority }, json({}));
    expect(status).toBe(400);
    expect((await send(session, asJson, json({}))).status).toBe(400);
  },
);

test("gRPC: rejects an unreadable message with a reason, without quoting it", async () => {
  const given = { email: "ann@example.com", password: 12_345_678 };
  const answer = await send(session, asJson, json(given));
  expect(answer.status).toBe(400);
  expect(answer.text).not.toContain("12345678");
  expect(JSON.parse(answer.text)).toMatchObject({
    code: "invalid_argument",
    message: "The request cannot be parsed.",
  });
  expect(failureOf(answer).reason).toBe(Reason.MALFORMED_REQUEST);
});

test("gRPC: JSON that is not UTF-8 is refused, unknown fields and the case of its content type are ignored, as over REST", async () => {
  const given = { email: "ann@example.com", password: "Wrong-1-guess" };
  const broken = Buffer.from(json(given));
  broken[broken.indexOf("guess")] = 0xff;
  expect((await send(session, asJson, broken)).text).toContain("The request cannot be parsed.");
  const inCapitals = { ...asJson, "content-type": "Application/JSON" };
  expect((await send(session, inCapitals, json({ ...given, unknown: 1 }))).status).toBe(401);
});

test("gRPC: rejects bodies that exceed the method's limit", async () => {
  const answer = await send(
    session,
    asJson,
    json({ email: "ann@example.com", password: "y".repeat(40_000) }),
  );
  expect(failureOf(answer)).toEqual({ code: Code.OutOfRange, reason: Reason.PAYLOAD_TOO_LARGE });
});

test("gRPC: a body in 20,000 parts is read within ten seconds", async () => {
  const stream = session.request({
    ":method": "POST",
    ":path": CHAT,
    "content-type": "application/grpc",
  });
  const answer = answerTo(stream);
  const started = performance.now();
  stream.write(framed(new Uint8Array(), { length: 200_000 }));
  for (let i = 0; i < 20_000; i++) await new Promise((sent) => stream.write(Buffer.alloc(1), sent));
  stream.end();
  expect(failureOf(await answer).code).toBe(Code.Unauthenticated);
  expect(performance.now() - started).toBeLessThan(10_000);
});

test("gRPC: ends a call at its deadline, and rejects a deadline beyond the range of timers in each protocol", async () => {
  const warnings = vi.spyOn(process, "emitWarning");
  const caller = (await app.signIn()).headers;
  const ask = (content: string, type: string, deadline: Record<string, string>) => {
    const headers = {
      ":path": STREAM,
      "content-type": `application/${type}`,
      ...caller,
      ...deadline,
    };
    return send(session, headers, chatFrame(content));
  };
  const late = await ask("case: silent", "grpc", { "grpc-timeout": "200m" });
  expect(late.trailers["grpc-status"]).toBe(String(Code.DeadlineExceeded));
  for (const type of ["grpc", "grpc-web", "connect+json"]) {
    const answer = await ask("case: plain", type, {
      "grpc-timeout": "3000H",
      "connect-timeout-ms": "9999999999",
    });
    expect(failureOf(answer)).toEqual({
      code: Code.InvalidArgument,
      reason: Reason.MALFORMED_REQUEST,
    });
  }
  expect(warnings).not.toHaveBeenCalled();
});

test.each([
  { type: "grpc", deadline: { "grpc-timeout": "0S" } },
  { type: "grpc", deadline: { "grpc-timeout": "00000000n" } },
  { type: "grpc-web", deadline: { "grpc-timeout": "0m" } },
  { type: "connect+json", deadline: { "connect-timeout-ms": "0" } },
  { type: "json", deadline: { "connect-timeout-ms": "0" } },
])("gRPC: a deadline of $deadline has passed, as $type", async ({ type, deadline }) => {
  const headers = { ":path": LOGIN, "content-type": `application/${type}`, ...deadline };
  const body = type === "json" ? json({}) : framed(new Uint8Array());
  const answer = await send(session, headers, body);
  expect(failureOf(answer).code).toBe(Code.DeadlineExceeded);
});

test("gRPC health: a watch ends with its deadline", async () => {
  const headers = {
    ":path": "/grpc.health.v1.Health/Watch",
    "content-type": "application/grpc",
    "grpc-timeout": "100m",
  };
  const answer = await send(session, headers, framed(new Uint8Array()));
  expect(answer.text).toContain("\b\u0001"); // SERVING
  expect(failureOf(answer).code).toBe(Code.DeadlineExceeded);
});
