import { STATUS_CODES } from "node:http";
import { Code, ConnectError } from "@connectrpc/connect";
import { FailureSchema, Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import {
  CLIENT_CLOSED_REQUEST,
  INTERNAL_MESSAGE,
  ServiceError,
  statuses,
  type Violation,
} from "../../services/platform/errors.ts";

/** The body of every error response (spec section 7, interface section 1). */
export type ErrorBody = { statusCode: number; message: string; error: string; code: string; violations?: Violation[] };

/** An error as an HTTP response. */
export type HttpErrorResponse = {
  reason: Reason;
  body: ErrorBody;
  retryAfterSeconds: number | undefined;
  /** An unexpected error that has not been logged yet. */
  isInternal: boolean;
};

const UNAVAILABLE_RETRY_SECONDS = 1;

/**
 * Status and text of a gRPC code without a `Failure` detail: Connect's table of HTTP statuses with fixed messages,
 * since a transport's own message may name hosts and addresses.
 */
const defaultStatus: Partial<Record<Code, [status: number, Reason, message: string]>> = {
  [Code.Canceled]: [CLIENT_CLOSED_REQUEST, Reason.CANCELLED, "The client went away."],
  [Code.InvalidArgument]: [400, Reason.MALFORMED_REQUEST, "The request can't be read."],
  [Code.OutOfRange]: [400, Reason.MALFORMED_REQUEST, "The request can't be read."],
  [Code.FailedPrecondition]: [400, Reason.MALFORMED_REQUEST, "The request can't be carried out."],
  [Code.DeadlineExceeded]: [504, Reason.UNAVAILABLE, "The answer took too long. Please try again."],
  [Code.NotFound]: [404, Reason.NOT_FOUND, "There is nothing here."],
  [Code.AlreadyExists]: [409, Reason.CONFLICT, "It exists already."],
  [Code.Aborted]: [409, Reason.CONFLICT, "Something changed meanwhile. Please try again."],
  [Code.PermissionDenied]: [403, Reason.FORBIDDEN, "You may not do this."],
  [Code.ResourceExhausted]: [429, Reason.RATE_LIMITED, "Too many requests. Please try again later."],
  [Code.Unimplemented]: [501, Reason.NOT_IMPLEMENTED, "This is not available yet."],
  [Code.Unavailable]: [503, Reason.UNAVAILABLE, "The service is away for a moment. Please try again."],
  [Code.Unauthenticated]: [401, Reason.UNAUTHENTICATED, "Please sign in."],
};

/** Maps any thrown value to the error response. Unexpected errors are masked. */
export function toHttpError(thrown: unknown): HttpErrorResponse {
  if (thrown instanceof ServiceError) {
    const { reason, message, details } = thrown;
    return httpError(reason, message, {
      ...details,
      retryAfterSeconds: details.retryAfterSeconds ?? retryAfter(reason),
    });
  }
  if (!(thrown instanceof ConnectError)) return internalError(true);
  const detail = thrown.findDetails(FailureSchema)[0];
  if (detail) {
    if (detail.reason === Reason.UNSPECIFIED) return internalError(false); // masked and logged by the services
    const violations = detail.violations.map(({ field, message }) => ({ field, message }));
    return httpError(detail.reason, thrown.rawMessage, { violations, retryAfterSeconds: detail.retryAfterSeconds });
  }
  const known = defaultStatus[thrown.code];
  if (!known) return internalError(true);
  const [status, reason, message] = known;
  return httpError(reason, message, { status, retryAfterSeconds: retryAfter(reason) });
}

const retryAfter = (reason: Reason) => (reason === Reason.UNAVAILABLE ? UNAVAILABLE_RETRY_SECONDS : undefined);

/** The response of a known reason. `status` is given only where it differs from the reason's own. */
export function httpError(
  reason: Reason,
  message: string,
  details: { violations?: Violation[]; retryAfterSeconds?: number | undefined; status?: number } = {},
): HttpErrorResponse {
  const known = statuses.get(reason);
  if (!known) return internalError(true); // a reason that is newer than this gateway
  const status = details.status ?? known.status;
  const body: ErrorBody = { statusCode: status, message, error: statusText(status), code: known.name };
  if (details.violations?.length) body.violations = details.violations;
  return { reason, body, retryAfterSeconds: details.retryAfterSeconds, isInternal: false };
}

function internalError(isInternal: boolean): HttpErrorResponse {
  const body = { statusCode: 500, message: INTERNAL_MESSAGE, error: statusText(500), code: "INTERNAL" };
  return { reason: Reason.UNSPECIFIED, body, retryAfterSeconds: undefined, isInternal };
}

const statusText = (status: number) => STATUS_CODES[status] ?? "Client Closed Request";
