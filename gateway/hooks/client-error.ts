import { randomUUID } from "node:crypto";
import type { Duplex } from "node:stream";
import type { Logger } from "pino";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { ServiceError } from "../../services/platform/errors.ts";
import type { HttpErrorResponse } from "../transcode/errors.ts";
import { httpError, toHttpError } from "../transcode/errors.ts";
import type { Instrumentation } from "./instrument-requests.ts";

const unreadable = "The request can't be read.";

/** Responses to errors of the HTTP server, by error code. */
const serverErrors: Record<string, HttpErrorResponse> = {
  ERR_HTTP_REQUEST_TIMEOUT: httpError(Reason.REQUEST_TIMEOUT, "The request took too long to arrive."),
  HPE_HEADER_OVERFLOW: httpError(Reason.MALFORMED_REQUEST, "The headers are too large.", {}, 431),
  HPE_CHUNK_EXTENSIONS_OVERFLOW: httpError(Reason.PAYLOAD_TOO_LARGE, "The chunk extensions are too large."),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: httpError(
    Reason.UNSUPPORTED_MEDIA_TYPE,
    "The body must be sent as Content-Type: application/json.",
  ),
  FST_ERR_BAD_URL: httpError(Reason.MALFORMED_REQUEST, "The path is not valid percent-encoded UTF-8."),
};

/** The response to a request that Fastify or a hook rejected before its method. */
export function fromFastifyError(thrown: Error & { code?: unknown; statusCode?: number }): HttpErrorResponse {
  const known = typeof thrown.code === "string" ? serverErrors[thrown.code] : undefined;
  if (known) return known;
  const isClients = thrown.statusCode !== undefined && thrown.statusCode >= 400 && thrown.statusCode < 500;
  return toHttpError(isClients ? new ServiceError(Reason.MALFORMED_REQUEST, unreadable) : thrown);
}

/**
 * Responds on the socket to input that never became a request: malformed HTTP, or headers or a body that arrive too
 * slowly. A connection with an unfinished response is closed, since a second response would corrupt the first.
 */
export function createClientErrorHandler(
  log: Logger,
  responses: Instrumentation["responses"],
  headers: Record<string, string>,
) {
  return (error: NodeJS.ErrnoException, socket: Duplex) => {
    const response = responses.get(socket);
    const isBusy = response?.req.complete ? !response.writableFinished : response?.headersSent;
    if (error.code === "ECONNRESET" || !socket.writable || isBusy) return void socket.destroy();
    const { body } = serverErrors[error.code ?? ""] ?? httpError(Reason.MALFORMED_REQUEST, unreadable);
    const text = JSON.stringify(body);
    const requestId = randomUUID();
    const head = [
      `HTTP/1.1 ${body.statusCode} ${body.error}`,
      "content-type: application/json; charset=utf-8",
      `content-length: ${Buffer.byteLength(text)}`,
      `x-request-id: ${requestId}`,
      ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
      "connection: close",
    ];
    log.info({ requestId, status: body.statusCode }, "unreadable request");
    socket.end(`${head.join("\r\n")}\r\n\r\n${text}`, () => socket.destroy());
  };
}
