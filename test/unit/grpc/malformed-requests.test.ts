import { randomBytes } from "node:crypto";
import http2 from "node:http2";
import { gzipSync } from "node:zlib";
import { Code } from "@connectrpc/connect";
import { afterAll, describe, expect, test } from "vitest";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { testApp } from "../../support/app.ts";
import {
  failureOf,
  framed,
  GZIP,
  head,
  LOGIN,
  PROFILE,
  questions,
  REFLECTION,
  STREAM,
  send,
} from "../../support/grpc.ts";

const app = await testApp();
const session = http2.connect(app.grpcUrl);
afterAll(() => session.close());
const authorize = async () => (await app.signIn()).headers;
const given = Buffer.from('\xff\xff{"password":"My-secret-1"', "latin1");
const gzip = { "grpc-encoding": "gzip", "connect-content-encoding": "gzip" };
const unknown = { "grpc-encoding": "My-secret-1", "connect-content-encoding": "My-secret-1" };
const JSON_TYPE = "application/grpc+json";

const MALFORMED = { code: Code.InvalidArgument, reason: Reason.MALFORMED_REQUEST };
const TOO_LARGE = { code: Code.OutOfRange, reason: Reason.PAYLOAD_TOO_LARGE };
const NOT_SERVED = { code: Code.Unimplemented, reason: Reason.NOT_IMPLEMENTED };

const faults: [string, object, Uint8Array, object][] = [
  ["bytes that are no message", {}, framed(given), MALFORMED],
  ["a frame that is cut short", {}, framed(given, { length: 1_000 }), MALFORMED],
  ["half a frame's head", {}, new Uint8Array(3), MALFORMED],
  ["a compressed message without a compression", {}, framed(given, { flags: 1 }), MALFORMED],
  ["a compressed message that is none", gzip, framed(given, { flags: 1 }), MALFORMED],
  ["a frame of 4 GiB", {}, framed(given, { length: 0xffffffff }), TOO_LARGE],
  ["a gzip bomb", gzip, framed(gzipSync(Buffer.alloc(8_000_000)), { flags: 1 }), TOO_LARGE],
  ["an unknown compression", unknown, framed(given), NOT_SERVED],
  ["no message", {}, new Uint8Array(), NOT_SERVED],
];

const types = [
  [PROFILE, "application/grpc"],
  [PROFILE, JSON_TYPE],
  [PROFILE, "application/grpc-web"],
  [PROFILE, "application/grpc-web+json"],
  [STREAM, "application/grpc"],
  [STREAM, "application/grpc-web+json"],
  [STREAM, "application/connect+proto"],
  [STREAM, "application/connect+json"],
] as const;

describe.each(types)("Malformed gRPC request to %s as %s", (path, type) => {
  const heads = (more: object) => head(path, { "content-type": type, ...more });

  test("gets a documented error that names the supported compressions and does not quote the request", async () => {
    const caller = await authorize();
    const logged = app.logs.length;
    for (const [what, headers, body, failure] of faults) {
      const answer = await send(session, heads({ ...headers, ...caller }), body);
      expect([what, failureOf(answer)]).toEqual([what, failure]);
      const known = answer.head["grpc-accept-encoding"] ?? answer.head["connect-accept-encoding"];
      if (headers === unknown) expect(known).toBe("gzip");
      expect(JSON.stringify(answer)).not.toMatch(/My-secret|gatehouse-unreadable/);
    }
    expect(app.logs.slice(logged).filter((line) => /"level":50|My-secret/.test(line))).toEqual([]);
  });

  test("is refused without a token first, and counts towards the rate limit", async () => {
    const { code } = failureOf(await send(session, heads({}), framed(given)));
    expect(code).toBe(Code.Unauthenticated);
    const caller = await authorize();
    for (let i = 0; i < 100; i++) await send(session, heads(caller), framed(given));
    const answer = await send(session, heads(caller), framed(given));
    expect(failureOf(answer)).toEqual({
      code: Code.ResourceExhausted,
      reason: Reason.RATE_LIMITED,
    });
  });
});

test("gRPC reflection: a stream with a malformed message fails with a documented code, and logs no error", async () => {
  const logged = app.logs.length;
  for (const body of [
    framed(given),
    framed(new Uint8Array([0x80])),
    framed(given, { flags: 1 }),
    Buffer.concat([questions(2), framed(given)]),
  ]) {
    const answer = await send(session, head(REFLECTION, {}), body);
    expect(failureOf(answer).code).toBe(Code.InvalidArgument);
  }
  expect(app.logs.slice(logged).filter((line) => line.includes('"level":50'))).toEqual([]);
});

test("gRPC port: a message that is not compressed is read without a token, whatever compression the client names", async () => {
  const login = (frame: Uint8Array) =>
    send(session, head(LOGIN, { "content-type": JSON_TYPE, ...GZIP }), frame);
  const message = Buffer.from("{}");
  expect(failureOf(await login(framed(message))).reason).toBe(Reason.VALIDATION_FAILED);
  const compressed = framed(gzipSync(message), { flags: 1 });
  expect(failureOf(await login(compressed))).toEqual(NOT_SERVED);
});

test("gRPC port: 16 KiB of a body are read without a token, and more with one", async () => {
  const sendBytes = (path: string, bytes: number, caller = {}) =>
    send(
      session,
      head(path, { "content-type": JSON_TYPE, ...caller }),
      framed(Buffer.from("{}".padEnd(bytes))),
    );
  expect(failureOf(await sendBytes(LOGIN, 16_384)).reason).toBe(Reason.VALIDATION_FAILED);
  expect(failureOf(await sendBytes(LOGIN, 16_385)).reason).toBe(Reason.PAYLOAD_TOO_LARGE);
  expect((await sendBytes(PROFILE, 16_385, await authorize())).trailers["grpc-status"]).toBe("0");
});

/**
 * A list of 5,000 objects after a field of 123 bytes: the message begins as JSON does after a line
 * feed.
 */
const manyFields = `\n{${"a".repeat(123)}${"\x12\0".repeat(5_000)}`;
const manyValues = Array(11_000).fill("{}").join();

test.each([
  { what: "protobuf that begins like JSON", codec: "proto", body: manyFields },
  { what: "a JSON object", codec: "json", body: `{"messages":[${manyValues}]}` },
  { what: "a JSON list", codec: "json", body: `[${manyValues}]` },
  {
    what: "JSON after a byte order mark",
    codec: "json",
    body: `\ufeff{"messages":[${manyValues}]}`,
  },
])(
  "gRPC port: the fields of $what are counted before they become objects",
  async ({ codec, body }) => {
    const message = Buffer.concat([Buffer.from(body), randomBytes(2_000)]); // expands to less than 20 times its size
    const headers = {
      "content-type": `application/grpc+${codec}`,
      ...GZIP,
      ...(await authorize()),
    };
    for (const frame of [framed(message), framed(gzipSync(message), { flags: 1 })]) {
      const { trailers } = await send(session, head(STREAM, headers), frame);
      expect(trailers["grpc-message"]).toBe("The%20request%20has%20too%20many%20fields.");
    }
  },
);
