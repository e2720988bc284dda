import type http2 from "node:http2";
import { type Code, ConnectError } from "@connectrpc/connect";
import { errorFromJson } from "@connectrpc/connect/protocol-connect";
import { findTrailerError } from "@connectrpc/connect/protocol-grpc";
import { FailureSchema, type Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";

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
