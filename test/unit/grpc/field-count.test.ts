import http2 from "node:http2";
import { Code } from "@connectrpc/connect";
import { afterAll, describe, expect, test } from "vitest";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { testApp } from "../../support/app.ts";
import { CHAT, failureOf, framed, head, STREAM, send } from "../../support/grpc.ts";

const app = await testApp();
const session = http2.connect(app.grpcUrl);
afterAll(() => session.close());

/** A field of a length: its tag, the length as a varint, and the content. */
function field(number: number, content: Uint8Array): Buffer {
  const head = [(number << 3) | 2];
  let { length } = content;
  for (; length > 127; length >>>= 7) head.push((length & 127) | 128);
  return Buffer.concat([Buffer.from([...head, length]), content]);
}

const MESSAGES = 2;
const ROLE = 1;
const CONTENT = 2;
/** A field that no message has, and its number as a tag of a varint. */
const UNKNOWN = Buffer.from([0x78, 0x01]);
const message = Buffer.concat([
  field(ROLE, Buffer.from("user")),
  field(CONTENT, Buffer.from("Hi")),
]);
const provider = field(1, Buffer.from("provider-a"));
const times = (count: number, part: Uint8Array) =>
  Buffer.alloc(count * part.length, Buffer.from(part));

const TOO_MANY = { code: Code.InvalidArgument, reason: Reason.MALFORMED_REQUEST };

/** Messages of Chat that would become far more objects than the largest legal one. */
const hostile = [
  { what: "a million empty messages", body: times(900_000, Buffer.from([0x12, 0])) },
  {
    what: "a million fields that are unknown in one message",
    body: field(MESSAGES, times(900_000, UNKNOWN)),
  },
  {
    what: "a million roles of one message",
    body: field(MESSAGES, times(900_000, Buffer.from([0x0a, 0]))),
  },
  {
    what: "ten fields in each of 512 messages",
    body: times(512, field(MESSAGES, times(10, UNKNOWN))),
  },
  { what: "a million unknown fields", body: times(900_000, UNKNOWN) },
  { what: "groups in groups", body: times(1_800_000, Buffer.from([0x7b])) },
  { what: "a group in a message", body: field(MESSAGES, times(1_800_000, Buffer.from([0x7b]))) },
];

describe.each([CHAT, STREAM])("gRPC: %s", (path) => {
  test.each(hostile)("fields are counted before they become objects: $what", async ({ body }) => {
    const caller = (await app.signIn()).headers;
    const frame = framed(Buffer.concat([provider, body]));
    const answer = await send(session, head(path, caller), frame);
    expect(failureOf(answer)).toEqual(TOO_MANY);
  });

  test("the largest conversation is accepted, with unknown fields of a newer client", async () => {
    const caller = (await app.signIn()).headers;
    const newer = Buffer.concat([message, UNKNOWN]);
    const body = Buffer.concat([provider, times(512, field(MESSAGES, newer)), UNKNOWN]);
    const answer = await send(session, head(path, caller), framed(body));
    expect(answer.trailers["grpc-status"]).toBe("0");
  });
});
