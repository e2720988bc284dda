import { Code, type ConnectError, createContextKey } from "@connectrpc/connect";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { Refusal } from "../refusal.ts";
import type { FieldViolation } from "../rules.ts";

/** Goes with a request that a gateway could not read, so that caller and limits are still looked at first. */
export const UNREADABLE = "x-gatehouse-unreadable";
/** Its value where the message is what could be read; a field that could not be stands there as if it were right. */
export const IN_PART = "in part";
/** Why a request of the gRPC door could not be read; it goes with the empty message that takes its place. */
export const unreadKey = createContextKey<ConnectError | undefined>(undefined, { description: "why it can't be read" });

const SOON = { retryAfterSeconds: 1 };

/**
 * What Connect found wrong with a request, in our words: its own quote what was sent.
 * @param violations of the rest of the request
 */
export function unreadable(found?: ConnectError, violations: FieldViolation[] = []): Refusal {
  switch (found?.code) {
    case Code.ResourceExhausted:
      return new Refusal(Reason.PAYLOAD_TOO_LARGE, "The request is too large.");
    case Code.DeadlineExceeded:
      return new Refusal(Reason.REQUEST_TIMEOUT, "The request took too long to arrive.");
    case Code.Unavailable:
      return new Refusal(Reason.UNAVAILABLE, "Too many large requests are arriving. Please try again.", SOON);
    case Code.Unimplemented: // where the gRPC specification wants this code
      return new Refusal(Reason.NOT_IMPLEMENTED, "A request is one message, compressed by gzip or br if at all.");
    default:
      return new Refusal(Reason.MALFORMED_REQUEST, "The request can't be read.", { violations });
  }
}
