import { create, getOption } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  FailureSchema,
  outcome,
  type ProviderFailure,
  Reason,
  ReasonSchema,
} from "../../../gen/gatehouse/platform/v1/failure_pb.ts";

/** One invalid field, by its JSON path, and the problem. Never contains the value. */
export type Violation = {
  field: string;
  message: string;
  /** Whether the field is valid, but the model does not support it or its value. */
  unsupported?: boolean;
};

/** Machine-readable details of an error. */
export type ErrorDetails = {
  violations?: Violation[];
  /** Seconds to wait before a retry makes sense. */
  retryAfterSeconds?: number | undefined;
  /** What went wrong at the AI provider. */
  providerFailure?: ProviderFailure;
};

/**
 * An expected failure: a reason for programs and a message for people. Any other error is a bug.
 */
export class ServiceError extends Error {
  readonly reason: Reason;
  readonly details: ErrorDetails;
  /** Response headers (gRPC: metadata) that accompany the error. */
  readonly headers: [string, string][] = [];

  constructor(reason: Reason, message: string, details: ErrorDetails = {}) {
    super(message);
    this.name = "ServiceError";
    this.reason = reason;
    this.details = details;
  }
}

/**
 * How a reason is presented to clients: gRPC code, HTTP status, and `code` in the JSON error body.
 */
type ReasonStatus = { code: Code; status: number; name: string };

/** The status of each reason, from its option in failure.proto. */
export const statuses: ReadonlyMap<Reason, ReasonStatus> = new Map(
  ReasonSchema.values.map((value) => {
    const reason = value.number as Reason;
    const name = reason === Reason.UNSPECIFIED ? "INTERNAL" : value.localName;
    const { code, status } = getOption(value, outcome);
    return [reason, { code, status, name }];
  }),
);

/**
 * The status of a reason that this process knows.
 * @throws Error for a reason from a newer failure.proto
 */
export function statusOf(reason: Reason): ReasonStatus {
  const status = statuses.get(reason);
  if (!status) throw new Error(`failure.proto has no reason ${reason}`);
  return status;
}

/** The stable name of a reason, such as `ACCOUNT_LOCKED`. */
export const reasonName = (reason: Reason): string => statusOf(reason).name;

/** An error about one field. */
export const invalid = (field: string, message: string) => invalidFields([{ field, message }]);

/** Maximum number of violations reported. They travel in headers, whose size is limited. */
export const MAX_VIOLATIONS = 50;
/** Maximum number of violations named in the message. */
const MAX_IN_MESSAGE = 10;

/**
 * An error about several fields. The message names the first 10; the details contain the first 50.
 */
export function invalidFields(violations: readonly Violation[]): ServiceError {
  return new ServiceError(
    Reason.VALIDATION_FAILED,
    `Invalid request: ${formatViolations(violations)}.`,
    {
      violations: violations.slice(0, MAX_VIOLATIONS),
    },
  );
}

function formatViolations(violations: readonly Violation[]): string {
  const named = violations
    .slice(0, MAX_IN_MESSAGE)
    .map(({ field, message }) => `${field} ${message}`);
  const more = violations.length - named.length;
  return [...named, ...(more > 0 ? [`and ${more} more`] : [])].join("; ");
}

/** This process, or something it depends on, can't serve the request now. */
export const unavailable = (message: string, retryAfterSeconds = 1): ServiceError =>
  new ServiceError(Reason.UNAVAILABLE, message, { retryAfterSeconds });

/** Too many password hashes are waiting. */
export const tooBusy = () =>
  unavailable("Too many sign-ins at once. Please try again in a moment.");

/**
 * The process is shutting down. A retry is served by another process, or by this one after a
 * restart.
 */
export const shuttingDown = () => unavailable("The service is shutting down. Please try again.");

/** Message of an operation that fails because the database or another dependency is unavailable. */
export const AWAY_MESSAGE = "The service is temporarily unavailable. Please try again.";

/** Maps an error to Connect's representation: gRPC code, message and a `Failure` detail. */
export function toConnectError({ reason, message, details, headers }: ServiceError): ConnectError {
  const detail = { desc: FailureSchema, value: create(FailureSchema, { reason, ...details }) };
  const error = new ConnectError(message, statusOf(reason).code, undefined, [detail]);
  if (details.retryAfterSeconds !== undefined)
    error.metadata.set("retry-after", String(details.retryAfterSeconds));
  for (const [name, value] of headers) error.metadata.set(name, value);
  return error;
}

/** The abort reason of a call whose response has ended: its work stops. */
export const CALL_ENDED = new ConnectError("The call has ended.", Code.Canceled);

/** The error for a call ended by its server, its deadline or its client. */
export function abortError({ reason }: AbortSignal): ConnectError {
  const code = reason instanceof ConnectError ? reason.code : Code.Canceled;
  if (code === Code.Unavailable) return toConnectError(shuttingDown());
  if (code === Code.DeadlineExceeded) return new ConnectError("The deadline has passed.", code);
  return new ConnectError("The call was cancelled.", Code.Canceled);
}

/**
 * HTTP status in logs and metrics for a request whose client disconnected first. Used by nginx; not
 * registered.
 */
export const CLIENT_CLOSED_REQUEST = 499;

export const INTERNAL_MESSAGE = "Something went wrong on our side. Please try again later.";

/** Hides the cause of a bug from the client. */
export const internalError = (): ConnectError =>
  toConnectError(new ServiceError(Reason.UNSPECIFIED, INTERNAL_MESSAGE));

/** The error to send for something thrown before the interceptors could map it. */
export function connectErrorOf(thrown: unknown): ConnectError {
  if (thrown instanceof ConnectError) return thrown;
  return thrown instanceof ServiceError ? toConnectError(thrown) : internalError();
}
