import { STATUS_CODES } from "node:http";
import { getOption } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { FailureSchema, outcome, Reason, ReasonSchema } from "../../gen/gatehouse/platform/v1/failure_pb.ts";

/** One offending field, by its JSON path, and what is wrong with it; never its value. */
export type Violation = { field: string; message: string };

/** The body of every error answer (spec section 7, interface section 1). */
export type ErrorBody = { statusCode: number; message: string; error: string; code: string; violations?: Violation[] };

/** A failure, ready to be told over HTTP. */
export type HttpFailure = {
  reason: Reason;
  body: ErrorBody;
  retryAfterSeconds: number | undefined;
  /** A bug or an answer that nobody foresaw, which nobody has logged yet. */
  unexpected: boolean;
};

/** A request that the gateway itself refuses. */
export class Refused extends Error {
  readonly reason: Reason;
  readonly violations: Violation[];
  constructor(reason: Reason, message: string, violations: Violation[] = []) {
    super(message);
    this.reason = reason;
    this.violations = violations;
  }
}

const INTERNAL_MESSAGE = "Something went wrong on our side. Please try again later.";
const UNAVAILABLE_RETRY_SECONDS = 1;

/** HTTP status and `code` word of each reason, as failure.proto states them. */
export const outcomes: ReadonlyMap<Reason, { status: number; code: string }> = new Map(
  ReasonSchema.values.map((value) => [
    value.number as Reason,
    {
      status: getOption(value, outcome).status,
      code: value.number === Reason.UNSPECIFIED ? "INTERNAL" : value.name.replace(/^REASON_/, ""),
    },
  ]),
);

/**
 * What a code without a `Failure` means: Connect's table of HTTP statuses, with words of ours.
 * The message is fixed, since the transport's own may name hosts and addresses.
 */
const plainCodes: Partial<Record<Code, [status: number, Reason, message: string]>> = {
  [Code.Canceled]: [499, Reason.CANCELLED, "The client went away."],
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

/** Turns whatever was thrown into what the client is told; anything unknown is masked. */
export function toFailure(thrown: unknown): HttpFailure {
  if (thrown instanceof Refused) {
    const { reason, message, violations } = thrown;
    return failure(reason, message, { violations, retryAfterSeconds: retryAfter(reason) });
  }
  if (!(thrown instanceof ConnectError)) return internal(true);
  const detail = thrown.findDetails(FailureSchema)[0];
  if (detail) {
    if (detail.reason === Reason.UNSPECIFIED) return internal(false); // masked and logged by the services
    const violations = detail.violations.map(({ field, message }) => ({ field, message }));
    return failure(detail.reason, thrown.rawMessage, { violations, retryAfterSeconds: detail.retryAfterSeconds });
  }
  const plain = plainCodes[thrown.code];
  if (!plain) return internal(true);
  const [status, reason, message] = plain;
  return failure(reason, message, { status, retryAfterSeconds: retryAfter(reason) });
}

const retryAfter = (reason: Reason) => (reason === Reason.UNAVAILABLE ? UNAVAILABLE_RETRY_SECONDS : undefined);

/** A failure with a known reason; `status` only where it is not the reason's own. */
export function failure(
  reason: Reason,
  message: string,
  facts: { violations?: Violation[]; retryAfterSeconds?: number | undefined; status?: number } = {},
): HttpFailure {
  const known = outcomes.get(reason);
  if (!known) return internal(true); // a reason that is newer than this gateway
  const status = facts.status ?? known.status;
  const body: ErrorBody = { statusCode: status, message, error: statusText(status), code: known.code };
  if (facts.violations?.length) body.violations = facts.violations;
  return { reason, body, retryAfterSeconds: facts.retryAfterSeconds, unexpected: false };
}

function internal(unexpected: boolean): HttpFailure {
  const body = { statusCode: 500, message: INTERNAL_MESSAGE, error: statusText(500), code: "INTERNAL" };
  return { reason: Reason.UNSPECIFIED, body, retryAfterSeconds: undefined, unexpected };
}

// 499 is nobody's standard: the client that would read it is gone
const statusText = (status: number) => STATUS_CODES[status] ?? "Client Closed Request";
