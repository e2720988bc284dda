import { Code } from "@connectrpc/connect";
import type { FastifyReply, FastifyRequest } from "fastify";

/** The error for an unknown method: its code in gRPC, and the name of that code in Connect. */
const STATUS = {
  "grpc-status": String(Code.Unimplemented),
  "grpc-message": "Unknown method.",
};
const ERROR = { code: "unimplemented", message: STATUS["grpc-message"] };
/** HTTP status of that code in Connect. */
const NOT_IMPLEMENTED = 501;
/** Flags of the last frame: trailers in gRPC-Web, end of stream in Connect. */
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
 * Responds to a request for an unknown method in the form of its protocol: UNIMPLEMENTED, which health
 * checks of load balancers look for (gRPC over HTTP/2, "Responses"; gRPC-Web; Connect, "Error
 * Codes"). Any other request gets 404.
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

/** Flags, length and content: the frame of all three protocols. */
function frame(flags: number, content: string): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(flags);
  head.writeUInt32BE(Buffer.byteLength(content), 1);
  return Buffer.concat([head, Buffer.from(content)]);
}
