import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import type { Logger } from "pino";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { AvailabilityLog } from "../platform/availability-log.ts";
import { internalError, ServiceError, shuttingDown, toConnectError } from "../platform/errors.ts";
import { isDatabaseUnavailable, redactDatabaseError } from "../store/errors.ts";
import { onComplete } from "./on-complete.ts";

/** Seconds after which a caller is told to try again when the database is away. */
const DATABASE_RETRY_SECONDS = 2;

/** Why a call was ended: by its server, by its deadline, or by its client. */
const causeOf = ({ reason }: AbortSignal) => (reason instanceof ConnectError ? reason.code : Code.Canceled);

/**
 * Maps service errors to Connect errors. Any other error is a bug: it is logged once and masked.
 * @param onDatabaseFailure is called for each call that failed because the database is unavailable
 */
export function mapErrors(log: Logger, onDatabaseFailure: AvailabilityLog["onFailure"]): Interceptor {
  return (next) => (req) =>
    onComplete(next, req, (ending) => {
      if (!("error" in ending)) return undefined;
      const { error } = ending;
      if (error instanceof ServiceError) return toConnectError(error);
      if (req.signal.aborted) {
        const cause = causeOf(req.signal);
        if (cause === Code.Unavailable) return toConnectError(shuttingDown());
        if (cause === Code.DeadlineExceeded) return new ConnectError("The deadline has passed.", cause);
        return new ConnectError("The call was cancelled.", Code.Canceled);
      }
      if (isDatabaseUnavailable(error)) {
        onDatabaseFailure(error as Error);
        return toConnectError(
          new ServiceError(Reason.UNAVAILABLE, "The service is not available right now. Please try again shortly.", {
            retryAfterSeconds: DATABASE_RETRY_SECONDS,
          }),
        );
      }
      if (error instanceof ConnectError && error.code === Code.Unimplemented) {
        return toConnectError(new ServiceError(Reason.NOT_IMPLEMENTED, "This is announced, but not there yet."));
      }
      if (error instanceof ConnectError && error.code !== Code.Internal && error.code !== Code.Unknown) return error;
      const rpc = `${req.service.typeName}/${req.method.name}`;
      log.error(
        { err: redactDatabaseError(error), rpc, requestId: req.header.get("x-request-id") },
        "unexpected failure",
      );
      return internalError();
    });
}
