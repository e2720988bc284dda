import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Logger } from "pino";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { ServiceError } from "../../services/platform/errors.ts";
import type { HttpErrorResponse } from "../transcode/errors.ts";
import { httpError, toHttpError } from "../transcode/errors.ts";
import { type MethodsOf, noRoute } from "./hooks.ts";

const unreadable = "The request can't be read.";

/** What the HTTP server itself found wrong with a request, by the code of its error. */
const serverErrors: Record<string, HttpErrorResponse> = {
  ERR_HTTP_REQUEST_TIMEOUT: httpError(Reason.REQUEST_TIMEOUT, "The request took too long to arrive."),
  HPE_HEADER_OVERFLOW: httpError(Reason.MALFORMED_REQUEST, "The headers are too large.", { status: 431 }),
  HPE_CHUNK_EXTENSIONS_OVERFLOW: httpError(Reason.PAYLOAD_TOO_LARGE, "The chunk extensions are too large."),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: httpError(
    Reason.UNSUPPORTED_MEDIA_TYPE,
    "The body must be sent as Content-Type: application/json.",
  ),
  FST_ERR_BAD_URL: httpError(Reason.MALFORMED_REQUEST, "The path is not valid percent-encoded UTF-8."),
};

/** What is told about a request that did not reach its method, whoever refused it. */
export function fromFastifyError(thrown: Error & { code?: unknown; statusCode?: number }): HttpErrorResponse {
  const known = typeof thrown.code === "string" ? serverErrors[thrown.code] : undefined;
  if (known) return known;
  const isClients = thrown.statusCode !== undefined && thrown.statusCode >= 400 && thrown.statusCode < 500;
  return toHttpError(isClients ? new ServiceError(Reason.MALFORMED_REQUEST, unreadable) : thrown);
}

/** What an answer that no route gives is made of. */
export type Unrouted = { log: Logger; headers: Record<string, string>; methodsOf: MethodsOf };

/**
 * Answers on the socket itself a request that never became one: unreadable HTTP, or one that arrives too slowly.
 * @param latest the answer to the latest request of this socket, which nothing may garble or cut off
 */
export function answerUnreadable(
  error: Unreadable,
  socket: Duplex,
  latest: ServerResponse | undefined,
  unrouted: Unrouted,
): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  if (latest && !latest.req.complete) {
    if (latest.headersSent) return; // the rest of a request that has its answer
    if (!latest.socket) {
      const answerInTurn = () => answerUnreadable(error, socket, latest, unrouted);
      if (latest.listenerCount("socket") === 0) latest.once("socket", answerInTurn);
      return;
    }
  } else if (latest && !latest.writableFinished) {
    if (latest.headersSent && latest.shouldKeepAlive) latest.once("finish", () => socket.end(() => socket.destroy()));
    latest.shouldKeepAlive = false;
    return;
  }
  const methods = methodsAt(error, unrouted.methodsOf);
  const { body } = methods
    ? toHttpError(noRoute(methods))
    : (serverErrors[error.code ?? ""] ?? httpError(Reason.MALFORMED_REQUEST, unreadable));
  const text = JSON.stringify(body);
  const requestId = randomUUID();
  const head = [
    `HTTP/1.1 ${body.statusCode} ${body.error}`,
    "Content-Type: application/json; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(text)}`,
    `X-Request-Id: ${requestId}`,
    ...Object.entries(unrouted.headers).map(([name, value]) => `${name}: ${value}`),
    ...(methods?.length ? [`Allow: ${methods.join(", ")}`] : []),
    "Connection: close",
  ];
  unrouted.log.info({ requestId, status: body.statusCode }, "unreadable request");
  socket.end(`${head.join("\r\n")}\r\n\r\n${text}`, () => socket.destroy());
}

/** What Node's server tells of a request that it could not read. */
type Unreadable = Error & { code?: string; rawPacket?: Buffer; bytesParsed?: number };

/**
 * The methods of the address that a request with a method unknown to Node's parser asks for: such a request is
 * well-formed, and refused for its method like any other. Undefined where no request line can be made out.
 */
function methodsAt({ code, rawPacket, bytesParsed = 0 }: Unreadable, methodsOf: MethodsOf): string[] | undefined {
  if (code !== "HPE_INVALID_METHOD" || !rawPacket) return undefined;
  const line = rawPacket.toString("latin1", rawPacket.lastIndexOf("\n", bytesParsed) + 1);
  const [, url] = /^[\w!#$%&'*+.^`|~-]+ (\/\S*) HTTP\/1\.[01]\r?\n/.exec(line) ?? [];
  return url === undefined ? undefined : methodsOf(url);
}
