import type { DescMessage, Message } from "@bufbuild/protobuf";
import { Code, ConnectError, createContextKey, type Interceptor } from "@connectrpc/connect";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { invalidFields, ServiceError, type Violation } from "../platform/errors.ts";
import { validateMessage, violationsOf } from "../platform/validation.ts";

/** Header of a call whose HTTP request the gateway could not read: caller and limits are still checked first. */
const UNREADABLE = "x-gatehouse-unreadable";
/** Its value when only some fields could not be read; those hold a placeholder in the message. */
const IN_PART = "in part";
/** Why a request to the gRPC port could not be read; set on the call whose empty message stands in for it. */
export const unreadKey = createContextKey<ConnectError | undefined>(undefined, { description: "why it can't be read" });

/** Checks every request against the rules of its proto; names every offending field by its JSON name, never its value. */
export const validate: Interceptor = (next) => (req) => {
  const found = req.contextValues.get(unreadKey);
  const unread = req.header.get(UNREADABLE);
  if (found) throw unreadable(found);
  if (unread !== null && unread !== IN_PART) throw marked(unreadable());
  if (req.method.input.fields.length === 0) return next(req);
  const check = unread === null ? validateMessage : checkRest;
  if (!req.stream) {
    check(req.method.input, req.message);
    return next(req);
  }
  return next({ ...req, message: checked(check, req.method.input, req.message) }).catch(tellUnread);
};

/** Connect finds out that a streamed request is unreadable only while the stream is read. */
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

function checkRest(schema: DescMessage, message: Message): never {
  throw marked(unreadable(undefined, invalidFields(violationsOf(schema, message)).details.violations));
}

/** The gateway knows what could not be read; the mark tells it that the services found nothing else to refuse. */
function marked(refusal: ServiceError): ServiceError {
  refusal.headers.push([UNREADABLE, "1"]);
  return refusal;
}

const SOON = { retryAfterSeconds: 1 };

/**
 * The refusal of a request that Connect could not read, in our words: Connect's own quote what was sent.
 * @param violations of the rest of the request
 */
function unreadable(found?: ConnectError, violations: Violation[] = []): ServiceError {
  switch (found?.code) {
    case Code.ResourceExhausted:
      return new ServiceError(Reason.PAYLOAD_TOO_LARGE, "The request is too large.");
    case Code.DeadlineExceeded:
      return new ServiceError(Reason.REQUEST_TIMEOUT, "The request took too long to arrive.");
    case Code.Unavailable:
      return new ServiceError(Reason.UNAVAILABLE, "Too many large requests are arriving. Please try again.", SOON);
    case Code.Unimplemented: // where the gRPC specification wants this code
      return new ServiceError(Reason.NOT_IMPLEMENTED, "A request is one message, compressed by gzip or br if at all.");
    default:
      return new ServiceError(Reason.MALFORMED_REQUEST, "The request can't be read.", { violations });
  }
}
