import { randomUUID } from "node:crypto";
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Logger } from "pino";
import {
  FailureSchema,
  ProviderFailure,
  Reason,
} from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import {
  type ErrorDetails,
  INTERNAL_MESSAGE,
  ServiceError,
  statuses,
} from "../../services/platform/rpc/errors.ts";
import type { HttpFormat } from "../formats/format.ts";
import { formatOfTarget } from "../formats/formats.ts";
import type { Lifecycle } from "../lifecycle.ts";
import type { ErrorBody, HttpErrorResponse } from "./http-error.ts";

type Known = [Reason, message: string, status?: number];

const UNAVAILABLE_RETRY_SECONDS = 1;
const AWAY: Known = [
  Reason.UNAVAILABLE,
  "The service is temporarily unavailable. Please try again.",
];
const UNREADABLE = "The request cannot be parsed.";
export const NOT_JSON = "The body must be sent as Content-Type: application/json.";

/**
 * Responses to errors without one of our reasons: by gRPC code if there is no `Failure` detail, and
 * by error code of Fastify and Node, whose messages may contain hosts and addresses. The status is
 * only given if it differs from that of the reason.
 */
const byCode: Record<string, Known> = {
  [Code.Canceled]: AWAY, // of the connection to the services; if the client has disconnected, no response is sent
  [Code.InvalidArgument]: [Reason.MALFORMED_REQUEST, UNREADABLE],
  [Code.DeadlineExceeded]: [
    Reason.UNAVAILABLE,
    "The response took too long. Please try again.",
    504,
  ],
  [Code.NotFound]: [Reason.NOT_FOUND, "This resource does not exist."],
  [Code.PermissionDenied]: [Reason.FORBIDDEN, "You are not allowed to do this."],
  [Code.ResourceExhausted]: [Reason.RATE_LIMITED, "Too many requests. Please try again later."],
  [Code.Unimplemented]: [Reason.NOT_IMPLEMENTED, "This is not implemented yet."],
  [Code.Unavailable]: AWAY,
  [Code.Unauthenticated]: [Reason.UNAUTHENTICATED, "Please sign in."],
  ERR_HTTP_REQUEST_TIMEOUT: [Reason.REQUEST_TIMEOUT, "The request took too long to arrive."],
  HPE_HEADER_OVERFLOW: [Reason.MALFORMED_REQUEST, "The headers exceed the maximum of 16 KiB.", 431],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [Reason.PAYLOAD_TOO_LARGE, "The chunk extensions are too large."],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: [Reason.UNSUPPORTED_MEDIA_TYPE, NOT_JSON],
  FST_ERR_BAD_URL: [Reason.MALFORMED_REQUEST, "The path is not valid percent-encoded UTF-8."],
};

/**
 * Responds to a request that no hook sees, because its caller has exceeded its share of open calls.
 * The connection is then closed.
 */
export function createRefusal(
  log: Logger,
  { mayLogRefusal }: Pick<Lifecycle, "mayLogRefusal">,
  headers: Record<string, string>,
) {
  return (error: unknown, request: IncomingMessage, response: ServerResponse): void => {
    const failed = toHttpError(error);
    const { status, body, headers: ofError } = errorResponse(failed, formatOfTarget(request.url));
    const text = JSON.stringify(body);
    const requestId = randomUUID();
    response.writeHead(status, {
      ...headers,
      ...ofError,
      "content-type": "application/json; charset=utf-8",
      "content-length": String(Buffer.byteLength(text)),
      "x-request-id": requestId,
    });
    response.end(text);
    if (mayLogRefusal()) log.info({ requestId, status }, "connection rejected");
  };
}

/** Maps any thrown value to an error response. Unexpected errors are masked. */
export function toHttpError(thrown: unknown): HttpErrorResponse {
  if (thrown instanceof ServiceError)
    return httpError(thrown.reason, thrown.message, thrown.details);
  const detail = thrown instanceof ConnectError ? thrown.findDetails(FailureSchema)[0] : undefined;
  if (detail?.reason === Reason.UNSPECIFIED) return internalError(false); // already masked and logged by the services
  if (detail) {
    const violations = detail.violations.map(({ field, message, unsupported }) => ({
      ...{ field, message },
      ...(unsupported && { unsupported }),
    }));
    return httpError(detail.reason, (thrown as ConnectError).rawMessage, { ...detail, violations });
  }
  const { code = "", statusCode = 500 } = (thrown ?? {}) as {
    code?: Code | string;
    statusCode?: number;
  };
  const known = isLost(thrown)
    ? AWAY
    : (byCode[code] ?? (statusCode < 500 ? byCode[Code.InvalidArgument] : undefined));
  return known ? httpError(known[0], known[1], {}, known[2]) : internalError(true);
}

/**
 * The response to an error: its status, headers and body.
 * @param format the format of the method or path; undefined for our own JSON
 * @param isCall whether the error is that of a method
 */
export function errorResponse(
  failed: HttpErrorResponse,
  format: HttpFormat | undefined,
  isCall = false,
): { status: number; headers: Record<string, string>; body: object } {
  const { body, retryAfterSeconds } = failed;
  const response = format?.error(failed, isCall) ?? { status: body.statusCode, headers: {}, body };
  const waits = retryAfterSeconds !== undefined && { "retry-after": String(retryAfterSeconds) };
  return { ...response, headers: { ...response.headers, ...waits } };
}

/**
 * Error codes of Node that concern a connection: system errors, and those of HTTP/2 and streams.
 */
const OF_CONNECTION = /^(?:E(?!RR_)|ERR_(?:HTTP2|STREAM)_)/;

/** Whether a call was ended by a lost connection to the services rather than by the services. */
const isLost = (thrown: unknown) =>
  thrown instanceof ConnectError &&
  OF_CONNECTION.test(String((thrown.cause as { code?: unknown } | undefined)?.code));

/** The response for a reason. `status` is only given if it differs from that of the reason. */
export function httpError(
  reason: Reason,
  message: string,
  details: ErrorDetails = {},
  status?: number,
): HttpErrorResponse {
  const known = statuses.get(reason);
  if (!known) return internalError(true); // a reason from a newer release
  const {
    violations,
    retryAfterSeconds = reason === Reason.UNAVAILABLE ? UNAVAILABLE_RETRY_SECONDS : undefined,
    providerFailure = ProviderFailure.UNSPECIFIED,
  } = details;
  const statusCode = status ?? known.status;
  const error = STATUS_CODES[statusCode] ?? "Client Closed Request";
  const body: ErrorBody = { statusCode, message, error, code: known.name };
  if (violations?.length) body.violations = violations;
  return { reason, body, retryAfterSeconds, providerFailure, isInternal: false };
}

const internalError = (isInternal: boolean): HttpErrorResponse => ({
  ...httpError(Reason.UNSPECIFIED, INTERNAL_MESSAGE),
  isInternal,
});

/**
 * Responds on the socket to input that never became a request: malformed HTTP, or headers or a body
 * that arrive too slowly. A connection with an unfinished response is closed, because a second
 * response would corrupt the first.
 */
export function createClientErrorHandler(
  log: Logger,
  { responseOf, mayLogRefusal }: Pick<Lifecycle, "responseOf" | "mayLogRefusal">,
  headers: Record<string, string>,
) {
  return (error: NodeJS.ErrnoException, socket: Duplex) => {
    const response = responseOf(socket);
    const isWaiting = response?.socket === null; // behind an earlier response on the connection
    const isBusy = response?.req.complete
      ? !response.writableFinished
      : response?.headersSent || isWaiting;
    if (error.code === "ECONNRESET" || !socket.writable || isBusy) return void socket.destroy();
    const failed = toHttpError({ code: error.code, statusCode: 400 });
    const { status, ...of } = errorResponse(failed, formatOfTarget(response?.req.url));
    const text = JSON.stringify(of.body);
    const requestId = randomUUID();
    const head = [
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
      "content-type: application/json; charset=utf-8",
      `content-length: ${Buffer.byteLength(text)}`,
      `x-request-id: ${requestId}`,
      ...Object.entries({ ...headers, ...of.headers }).map(([name, value]) => `${name}: ${value}`),
      "connection: close",
    ];
    if (mayLogRefusal()) log.info({ requestId, status }, "unreadable request");
    socket.end(`${head.join("\r\n")}\r\n\r\n${text}`, () => socket.destroy());
  };
}
