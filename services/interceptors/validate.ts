import type { DescMessage, Message } from "@bufbuild/protobuf";
import type { Interceptor } from "@connectrpc/connect";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { Refusal } from "../refusal.ts";
import { violationsOf } from "../rules.ts";

/** Violations that are told of; they travel in headers, whose size is bounded. */
const MAX_TOLD = 50;
/** Violations that the sentence for people names. */
const MAX_NAMED = 10;
/** Goes with a request that could not be read, so that caller and limits are still looked at first. */
export const UNREADABLE = "x-gatehouse-unreadable";
/** Why, where the size is it. */
export const TOO_LARGE = "too large";

/** Checks every request against the rules of its proto; names every offending field by its JSON name, never its value. */
export const validate: Interceptor = (next) => (req) => {
  const unread = req.header.get(UNREADABLE);
  if (unread !== null) throw unreadable(unread);
  if (req.method.input.fields.length === 0) return next(req);
  if (!req.stream) {
    check(req.method.input, req.message);
    return next(req);
  }
  return next({ ...req, message: checked(req.method.input, req.message) });
};

async function* checked<T extends Message>(schema: DescMessage, messages: AsyncIterable<T>): AsyncIterable<T> {
  for await (const message of messages) {
    check(schema, message);
    yield message;
  }
}

function check(schema: DescMessage, message: Message): void {
  const violations = violationsOf(schema, message);
  if (violations.length === 0) return;
  const named = violations.slice(0, MAX_NAMED).map(({ field, message: told }) => `${field} ${told}`);
  const more = violations.length - named.length;
  const told = [...named, ...(more > 0 ? [`and ${more} more`] : [])].join("; ");
  throw new Refusal(Reason.VALIDATION_FAILED, `Invalid request: ${told}.`, {
    violations: violations.slice(0, MAX_TOLD),
  });
}

/** A gateway knows what was wrong and tells it; the mark says that nothing else was. */
function unreadable(why: string): Refusal {
  const refusal =
    why === TOO_LARGE
      ? new Refusal(Reason.PAYLOAD_TOO_LARGE, "The request is too large.")
      : new Refusal(Reason.MALFORMED_REQUEST, "The request can't be read.");
  refusal.headers.push([UNREADABLE, "1"]);
  return refusal;
}
