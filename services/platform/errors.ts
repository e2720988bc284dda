import { create, getOption } from "@bufbuild/protobuf";
import { type Code, ConnectError } from "@connectrpc/connect";
import { FailureSchema, outcome, Reason, ReasonSchema } from "../../gen/gatehouse/platform/v1/failure_pb.ts";

/** One offending field, by its JSON path; never its value. */
export type Violation = { field: string; message: string };

/** What a refusal says beside its sentence. */
export type RefusalFacts = {
  violations?: Violation[];
  /** Seconds until another try makes sense. */
  retryAfterSeconds?: number;
};

/** An expected failure: a reason that programs switch on and a sentence that a person can act on. */
export class Refusal extends Error {
  readonly reason: Reason;
  readonly facts: RefusalFacts;
  /** Response headers, or metadata, that go with it. */
  readonly headers: [string, string][] = [];

  constructor(reason: Reason, message: string, facts: RefusalFacts = {}) {
    super(message);
    this.name = "Refusal";
    this.reason = reason;
    this.facts = facts;
  }
}

/** One field that an operation itself finds wrong. */
export function invalid(field: string, message: string): Refusal {
  return invalidFields([{ field, message }]);
}

/** Every field that an operation itself finds wrong. */
export function invalidFields(violations: Violation[]): Refusal {
  const told = violations.map(({ field, message }) => `${field} ${message}`).join("; ");
  return new Refusal(Reason.VALIDATION_FAILED, `Invalid request: ${told}.`, { violations });
}

/** More sign-ins than can be worked on. */
export function tooBusy(): Refusal {
  const message = "Too many sign-ins at once. Please try again in a moment.";
  return new Refusal(Reason.UNAVAILABLE, message, { retryAfterSeconds: 1 });
}

/** The gRPC code and HTTP status of a reason, from its option in failure.proto. */
export function outcomeOf(reason: Reason): { code: number; status: number } {
  const value = ReasonSchema.value[reason] ?? ReasonSchema.value[Reason.UNSPECIFIED];
  if (!value) throw new Error("failure.proto has lost its first reason");
  return getOption(value, outcome);
}

/** A refusal as every client of every protocol reads it: code, sentence and a `Failure` detail. */
export function toConnectError(refusal: Refusal): ConnectError {
  const { reason, facts } = refusal;
  const detail = create(FailureSchema, { reason, ...facts });
  const error = new ConnectError(refusal.message, outcomeOf(reason).code as Code, undefined, [
    { desc: FailureSchema, value: detail },
  ]);
  if (facts.retryAfterSeconds !== undefined) error.metadata.set("retry-after", String(facts.retryAfterSeconds));
  for (const [name, value] of refusal.headers) error.metadata.set(name, value);
  return error;
}

/** A reason's stable word, which is the `code` of the JSON error body. */
export function wordOf(reason: Reason): string | undefined {
  return ReasonSchema.value[reason]?.localName;
}

/** The answer to a bug: it says nothing about the cause. */
export function internalError(): ConnectError {
  return toConnectError(new Refusal(Reason.UNSPECIFIED, "Something went wrong on our side. Please try again later."));
}
