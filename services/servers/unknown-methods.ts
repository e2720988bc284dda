import { Code } from "@connectrpc/connect";
import type { FastifyReply, FastifyRequest } from "fastify";

/** The error of a call that names no method: its code in gRPC, and the name of it in Connect. */
const STATUS = {
  "grpc-status": String(Code.Unimplemented),
  "grpc-message": "There is no such method.",
};
const ERROR = { code: "unimplemented", message: STATUS["grpc-message"] };
/** The HTTP status of the code in Connect. */
const NOT_IMPLEMENTED = 501;
/** Flags of the last frame: of trailers in gRPC-Web, of the end of a stream in Connect. */
const GRPC_WEB_TRAILERS = 0x80;
const CONNECT_END = 0x02;

/** The parts of a response. */
type Answer = {
  status: number;
  type: string;
  body?: string | Uint8Array;
  trailers?: Record<string, string>;
};

/**
 * Answers a request that names no method in the form of its protocol: as UNIMPLEMENTED, which health
 * checks of load balancers look for (gRPC over HTTP/2, "Responses"; gRPC-Web; Connect, "Error
 * Codes"). Any other request is 404.
 */
export function answerUnknownMethod({ method, headers }: FastifyRequest, reply: FastifyReply) {
  const answer = method === "POST" ? unimplemented(headers["content-type"] ?? "") : undefined;
  if (!answer) return void reply.code(404).send();
  const { status, type, body, trailers } = answer;
  const { raw } = reply.hijack();
  raw.writeHead(status, { ...(reply.getHeaders() as object), "content-type": type });
  if (trailers) raw.addTrailers(trailers);
  raw.end(body);
}

function unimplemented(type: string): Answer | undefined {
  if (/^application\/grpc(?:\+|$)/i.test(type)) return { status: 200, type, trailers: STATUS };
  if (/^application\/grpc-web(?:\+|$)/i.test(type)) {
    const lines = Object.entries(STATUS).map(([name, value]) => `${name}: ${value}\r\n`);
    return { status: 200, type, body: frame(GRPC_WEB_TRAILERS, lines.join("")) };
  }
  if (/^application\/connect\+/i.test(type))
    return { status: 200, type, body: frame(CONNECT_END, JSON.stringify({ error: ERROR })) };
  if (/^application\/(?:json|proto)$/i.test(type))
    return { status: NOT_IMPLEMENTED, type: "application/json", body: JSON.stringify(ERROR) };
  return undefined;
}

/** Flags, length and content: the frame of all protocols. */
function frame(flags: number, content: string): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(flags);
  head.writeUInt32BE(Buffer.byteLength(content), 1);
  return Buffer.concat([head, Buffer.from(content)]);
}
