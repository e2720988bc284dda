import type { DescMessage, Message } from "@bufbuild/protobuf";
import { ConnectError, type Interceptor, type UnaryRequest } from "@connectrpc/connect";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { Refusal } from "../refusal.ts";
import { violationsOf } from "../rules.ts";
import { UNREADABLE, unreadable, unreadKey } from "./unreadable.ts";

/** Violations that are told of; they travel in headers, whose size is bounded. */
const MAX_TOLD = 50;
/** Violations that the sentence for people names. */
const MAX_NAMED = 10;
/** Checks every request against the rules of its proto; names every offending field by its JSON name, never its value. */
export const validate: Interceptor = (next) => (req) => {
  refuseUnread(req);
  if (req.method.input.fields.length === 0) return next(req);
  if (!req.stream) {
    check(req.method.input, req.message);
    return next(req);
  }
  return next({ ...req, message: checked(req.method.input, req.message) }).catch(tellUnread);
};

/** One that could not be read comes without a message. A gateway knows what was wrong, and that nothing else was. */
function refuseUnread({ header, contextValues }: Pick<UnaryRequest, "header" | "contextValues">): void {
  const found = contextValues.get(unreadKey);
  if (!found && !header.has(UNREADABLE)) return;
  const refusal = unreadable(found);
  refusal.headers.push([UNREADABLE, "1"]);
  throw refusal;
}

/** Of a stream, Connect tells only while it is read. */
function tellUnread(thrown: unknown): never {
  throw thrown instanceof ConnectError ? unreadable(thrown) : thrown;
}

async function* checked<T extends Message>(schema: DescMessage, messages: AsyncIterable<T>): AsyncIterable<T> {
  try {
    for await (const message of messages) {
      check(schema, message);
      yield message;
    }
  } catch (thrown) {
    tellUnread(thrown);
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
