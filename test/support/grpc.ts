// gRPC below the client library: paths, frames, raw requests and their failures.

import http2 from "node:http2";
import { gzipSync } from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { errorFromJson } from "@connectrpc/connect/protocol-connect";
import { findTrailerError } from "@connectrpc/connect/protocol-grpc";
import { StreamChatRequestSchema } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { FailureSchema, type Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { ServerReflectionRequestSchema } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { conversationOf } from "./ai/calls.ts";
import { times } from "./tally.ts";

/** A response without decoding. */
export type RawAnswer = {
  status: number | undefined;
  head: http2.IncomingHttpHeaders;
  text: string;
  trailers: http2.IncomingHttpHeaders;
};

/** Sends any bytes as the body of a request. */
export function send(
  session: http2.ClientHttp2Session,
  headers: http2.OutgoingHttpHeaders,
  body: Uint8Array,
): Promise<RawAnswer> {
  const stream = session.request({ ":method": "POST", ...headers });
  stream.end(body);
  return answerTo(stream);
}

/** The response to a stream, once the server has ended it. */
export function answerTo(stream: http2.ClientHttp2Stream): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const answer: RawAnswer = { status: undefined, head: {}, text: "", trailers: {} };
    stream.on("response", (head) => Object.assign(answer, { status: head[":status"], head }));
    stream.on("trailers", (trailers) => Object.assign(answer, { trailers }));
    stream.setEncoding("utf8").on("data", (part: string) => {
      answer.text += part;
    });
    stream.on("error", reject).on("end", () => resolve(answer));
  });
}

/** A message in the frame of gRPC, and of streams in Connect. */
export function framed(
  message: Uint8Array,
  { flags = 0, length = message.length } = {},
): Uint8Array {
  const head = Buffer.alloc(5);
  head.writeUInt8(flags);
  head.writeUInt32BE(length, 1);
  return Buffer.concat([head, message]);
}

/** The failure in a response of gRPC, gRPC-Web or Connect. */
export function failureOf({ head, text, trailers }: RawAnswer): {
  code: Code;
  reason: Reason | undefined;
} {
  const error = errorIn(text) ?? findTrailerError(statusIn(text, { ...head, ...trailers }));
  if (!error) throw new Error("the response is no failure");
  return { code: error.code, reason: error.findDetails(FailureSchema)[0]?.reason };
}

/** Connect's error in JSON, on its own or at the end of a stream. */
function errorIn(text: string): ConnectError | undefined {
  if (!/^[^{]*\{.*\}$/s.test(text)) return undefined;
  const read = JSON.parse(text.slice(text.indexOf("{")));
  return errorFromJson(read.error ?? read, undefined, new ConnectError("the error is malformed"));
}

/** The status of gRPC: in headers or trailers, or in the last frame of gRPC-Web's body. */
function statusIn(text: string, headers: http2.IncomingHttpHeaders): Headers {
  const lines = [...text.matchAll(/(grpc-[a-z-]+): (.*)\r\n/g)].map(([, name = "", value = ""]) => [
    name,
    value,
  ]);
  const status = Object.entries(headers).filter(([name]) => name.startsWith("grpc-"));
  return new Headers(Object.fromEntries([...status, ...lines]));
}

export const CHAT = "/gatehouse.ai.v1.AIService/Chat";
export const PROFILE = "/gatehouse.account.v1.UserService/GetProfile";
export const STREAM = "/gatehouse.ai.v1.AIService/StreamChat";
export const LOGIN = "/gatehouse.account.v1.AuthService/Login";
export const REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
export const GZIP = { "grpc-encoding": "gzip" };

/** A million empty elements of `messages`, and the same in 2 KB. */
export const elements = Buffer.alloc(2_000_000).fill(Buffer.from([0x12, 0]));
export const bomb = framed(gzipSync(elements), { flags: 1 });

const messageRequest = {
  case: "fileContainingSymbol",
  value: "gatehouse.ai.v1.AIService",
} as const;
const question = toBinary(
  ServerReflectionRequestSchema,
  create(ServerReflectionRequestSchema, { messageRequest }),
);
/** Requests about a service, for a reflection stream. */
export const questions = (count: number) => Buffer.concat(times(count, () => framed(question)));

/** The body of Chat or StreamChat: a conversation of one message. */
export const chatFrame = (content: string) =>
  framed(
    toBinary(StreamChatRequestSchema, create(StreamChatRequestSchema, conversationOf(content))),
  );

/** The address of the gRPC port in the output of a process. */
export const grpcUrlIn = (output: string) =>
  `http://${/(?:gRPC|Connect) on (127\.0\.0\.1:\d+)/.exec(output)?.[1]}`;

/** The headers of a gRPC call. */
export const head = (path: string, more = {}) => ({
  ":method": "POST",
  ":path": path,
  "content-type": "application/grpc",
  ...more,
});

/** Runs requests on a gRPC connection, and closes it. */
export async function withSession<T>(
  url: string,
  run: (session: http2.ClientHttp2Session) => Promise<T>,
): Promise<T> {
  const session = http2.connect(url, { maxSessionMemory: 200 }).on("error", () => {}); // in MB
  return run(session).finally(() => session.destroy());
}

const {
  Unauthenticated,
  InvalidArgument,
  OutOfRange,
  ResourceExhausted,
  Unavailable,
  FailedPrecondition,
} = Code;
const CODES = [
  0,
  InvalidArgument,
  Unauthenticated,
  OutOfRange,
  FailedPrecondition,
  ResourceExhausted,
  Unavailable,
];
/** The HTTP status of REST for a gRPC status. */
export const httpStatusOf = (code: number) =>
  [200, 400, 401, 413, 423, 429, 503][CODES.indexOf(code)] ?? code;
