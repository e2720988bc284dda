import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { ServiceError, type Violation } from "../../services/platform/errors.ts";

/** Violations of one request that are told of. */
const MAX_TOLD = 50;
/** Violations that the sentence for people names. */
const MAX_NAMED = 10;

/** Refuses a request for what could not be read in it, and for what breaks a rule beside that. */
export function refuseFor(unread: readonly Violation[], broken: readonly Violation[]): ServiceError {
  const told = new Set(unread.map(({ field }) => field));
  const isTold = ({ field }: Violation) =>
    [...field.matchAll(/(?=[.[])|$/g)].some(({ index }) => told.has(field.slice(0, index)));
  const violations = [...unread, ...broken.filter((violation) => !isTold(violation))].slice(0, MAX_TOLD);
  return new ServiceError(Reason.VALIDATION_FAILED, sentenceOf(violations), { violations });
}

/** The violations in a sentence, worded as the services word theirs. */
function sentenceOf(violations: Violation[]): string {
  const named = violations.slice(0, MAX_NAMED).map(({ field, message }) => `${field} ${message}`);
  const more = violations.length - named.length;
  return `Invalid request: ${[...named, ...(more > 0 ? [`and ${more} more`] : [])].join("; ")}.`;
}
