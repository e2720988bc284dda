import type { DescMessage, Message } from "@bufbuild/protobuf";
import { ConnectError, type Interceptor } from "@connectrpc/connect";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { Refusal } from "../refusal.ts";
import { violationsOf } from "../rules.ts";
import { IN_PART, UNREADABLE, unreadable, unreadKey } from "./unreadable.ts";

/** Violations that are told of; they travel in headers, whose size is bounded. */
const MAX_TOLD = 50;
/** Violations that the sentence for people names. */
const MAX_NAMED = 10;

/** Checks every request against the rules of its proto; names every offending field by its JSON name, never its value. */
export const validate: Interceptor = (next) => (req) => {
  const found = req.contextValues.get(unreadKey);
  const unread = req.header.get(UNREADABLE);
  if (found) throw unreadable(found);
  if (unread !== null && unread !== IN_PART) throw marked(unreadable());
  if (req.method.input.fields.length === 0) return next(req);
  const check = unread === null ? checkAll : checkRest;
  if (!req.stream) {
    check(req.method.input, req.message);
    return next(req);
  }
  return next({ ...req, message: checked(check, req.method.input, req.message) }).catch(tellUnread);
};

/** Of a stream, Connect tells only while it is read. */
function tellUnread(thrown: unknown): never {
  throw thrown instanceof ConnectError ? unreadable(thrown) : thrown;
}

type Check = (schema: DescMessage, message: Message) => void;

async function* checked<T extends Message>(
  check: Check,
  schema: DescMessage,
  messages: AsyncIterable<T>,
): AsyncIterable<T> {
  try {
    for await (const message of messages) {
      check(schema, message);
      yield message;
    }
  } catch (thrown) {
    tellUnread(thrown);
  }
}

function checkAll(schema: DescMessage, message: Message): void {
  const violations = violationsOf(schema, message);
  if (violations.length === 0) return;
  const named = violations.slice(0, MAX_NAMED).map(({ field, message: told }) => `${field} ${told}`);
  const more = violations.length - named.length;
  const told = [...named, ...(more > 0 ? [`and ${more} more`] : [])].join("; ");
  throw new Refusal(Reason.VALIDATION_FAILED, `Invalid request: ${told}.`, {
    violations: violations.slice(0, MAX_TOLD),
  });
}

function checkRest(schema: DescMessage, message: Message): never {
  throw marked(unreadable(undefined, violationsOf(schema, message).slice(0, MAX_TOLD)));
}

/** A gateway knows what was wrong, and by the mark that nothing else was. */
function marked(refusal: Refusal): Refusal {
  refusal.headers.push([UNREADABLE, "1"]);
  return refusal;
}
