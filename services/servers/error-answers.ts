import { constants } from "node:http2";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  codeToHttpStatus,
  endStreamFlag,
  endStreamToJson,
  errorToJson,
} from "@connectrpc/connect/protocol-connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { trailerFlag, trailerSerialize } from "@connectrpc/connect/protocol-grpc-web";
import type { FastifyReply, FastifyRequest } from "fastify";
import { rawOf } from "./request-body.ts";

const UNKNOWN_METHOD = new ConnectError("Unknown method.", Code.Unimplemented);

/** The parts of a response. */
type Answer = {
  status?: number;
  headers: Record<string, string>;
  body?: string | Uint8Array;
  trailers?: Record<string, string>;
};

/**
 * Responds to a call with an error, in the form of its protocol (gRPC over HTTP/2, "Responses";
 * gRPC-Web; Connect, "Error Codes"). Does not use Connect's handlers, which prepare a whole call
 * before they can refuse it: strangers would make use of that cost. Closes the stream if the client
 * is still sending.
 */
export function answerError(request: FastifyRequest, reply: FastifyReply, error: ConnectError) {
  if (request.method !== "POST") return void reply.code(405).header("allow", "POST").send();
  const answer = errorAnswer(request.headers["content-type"], error);
  if (!answer) return void reply.code(415).send();
  const { stream, complete } = rawOf(request);
  const close = () => stream.close(constants.NGHTTP2_NO_ERROR); // RFC 9113 section 8.1
  if (!complete) stream.once("wantTrailers", () => setImmediate(close));
  send(reply, answer);
}

/**
 * Responds to a request for an unknown method: UNIMPLEMENTED, which health checks of load balancers
 * look for. A request that is not a call gets 404.
 */
export function answerUnknownMethod(request: FastifyRequest, reply: FastifyReply) {
  const { method, headers } = request;
  const answer =
    method === "POST" ? errorAnswer(headers["content-type"], UNKNOWN_METHOD) : undefined;
  if (!answer) return void reply.code(404).send();
  send(reply, answer);
}

function errorAnswer(type = "", error: ConnectError): Answer | undefined {
  const contentType = { "content-type": type };
  if (/^application\/grpc(?:\+|$)/i.test(type))
    return { headers: contentType, trailers: plain(trailersOf(error)) };
  if (/^application\/grpc-web(?:\+|$)/i.test(type))
    return { headers: contentType, body: frame(trailerFlag, trailerSerialize(trailersOf(error))) };
  if (/^application\/connect\+/i.test(type)) {
    const end = JSON.stringify(endStreamToJson(error.metadata, error, undefined));
    return { headers: contentType, body: frame(endStreamFlag, Buffer.from(end)) };
  }
  if (/^application\/(?:json|proto)$/i.test(type))
    return {
      status: codeToHttpStatus(error.code),
      headers: { ...plain(error.metadata), "content-type": "application/json" },
      body: JSON.stringify(errorToJson(error, undefined)),
    };
  return undefined;
}

const trailersOf = (error: ConnectError) => setTrailerStatus(new Headers(), error);

const plain = (headers: Headers): Record<string, string> => Object.fromEntries(headers);

/** Flags, length and content: the frame of all three protocols. */
function frame(flags: number, content: Uint8Array): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(flags);
  head.writeUInt32BE(content.length, 1);
  return Buffer.concat([head, content]);
}

function send(reply: FastifyReply, { status = 200, headers, body, trailers }: Answer): void {
  const { raw } = reply.hijack();
  raw.writeHead(status, { ...(reply.getHeaders() as object), ...headers });
  if (trailers) raw.addTrailers(trailers);
  raw.end(body);
}
