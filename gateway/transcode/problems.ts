import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { type Problem, Refused } from "./errors.ts";

/** Problems of one request that are told of. */
const MAX_TOLD = 50;
/** Problems that the sentence for people names. */
const MAX_NAMED = 10;

/** Refuses a request for what could not be read in it, and for what breaks a rule beside that. */
export function refuseFor(unread: readonly Problem[], broken: readonly Problem[]): Refused {
  const told = new Set(unread.map(({ field }) => field));
  const isTold = ({ field }: Problem) =>
    [...field.matchAll(/(?=[.[])|$/g)].some(({ index }) => told.has(field.slice(0, index)));
  const problems = [...unread, ...broken.filter((problem) => !isTold(problem))].slice(0, MAX_TOLD);
  return new Refused(Reason.VALIDATION_FAILED, sentenceOf(problems), problems);
}

/** The problems in a sentence, worded as the services word theirs. */
function sentenceOf(problems: Problem[]): string {
  const named = problems.slice(0, MAX_NAMED).map(({ field, message }) => `${field} ${message}`);
  const more = problems.length - named.length;
  return `Invalid request: ${[...named, ...(more > 0 ? [`and ${more} more`] : [])].join("; ")}.`;
}
