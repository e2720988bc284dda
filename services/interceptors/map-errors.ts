import { Code, ConnectError, type StreamRequest, type UnaryRequest } from "@connectrpc/connect";
import type { Logger } from "pino";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { internalError, ServiceError, shuttingDown, toConnectError } from "../platform/errors.ts";
import type { AvailabilityLog } from "../platform/log.ts";
import { isDatabaseUnavailable, redactDatabaseError } from "../store/errors.ts";

/** Seconds after which clients retry when the database is unavailable. */
const DATABASE_RETRY_SECONDS = 2;

/**
 * Maps the error of a call to the Connect error that the client gets. An unknown error is a bug: it is logged once and
 * masked.
 * @param onDatabaseFailure is called for each call that failed because the database is unavailable
 */
export function createErrorMapper(log: Logger, onDatabaseFailure: AvailabilityLog["onFailure"]) {
  return (error: unknown, { method, header, signal }: UnaryRequest | StreamRequest): ConnectError => {
    if (error instanceof ServiceError) return toConnectError(error);
    if (signal.aborted) return abortError(signal);
    if (isDatabaseUnavailable(error)) {
      onDatabaseFailure(error as Error);
      const message = "The service is not available right now. Please try again shortly.";
      const details = { retryAfterSeconds: DATABASE_RETRY_SECONDS };
      return toConnectError(new ServiceError(Reason.UNAVAILABLE, message, details));
    }
    if (error instanceof ConnectError && error.code === Code.Unimplemented) {
      return toConnectError(new ServiceError(Reason.NOT_IMPLEMENTED, "This method is not implemented yet."));
    }
    if (error instanceof ConnectError && error.code !== Code.Internal && error.code !== Code.Unknown) return error;
    const rpc = `${method.parent.typeName}/${method.name}`;
    log.error({ err: redactDatabaseError(error), rpc, requestId: header.get("x-request-id") }, "unexpected failure");
    return internalError();
  };
}

/** The error of a call that its server, its deadline or its client has ended. */
function abortError({ reason }: AbortSignal): ConnectError {
  const code = reason instanceof ConnectError ? reason.code : Code.Canceled;
  if (code === Code.Unavailable) return toConnectError(shuttingDown());
  if (code === Code.DeadlineExceeded) return new ConnectError("The deadline has passed.", code);
  return new ConnectError("The call was cancelled.", Code.Canceled);
}
