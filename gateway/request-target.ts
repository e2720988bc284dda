import type { IncomingMessage } from "node:http";
import { Reason } from "../gen/gatehouse/platform/v1/failure_pb.ts";
import { ServiceError } from "../services/platform/rpc/errors.ts";

/** A path, or an absolute URL as sent to proxies (RFC 9112 section 3.2). */
const TARGET = /^(?:\/|https?:\/\/)/i;

/**
 * Requires a request target that names a resource. The router would treat any other, such as `*`,
 * as `/`.
 * @throws ServiceError MALFORMED_REQUEST
 */
export function checkTarget({ url = "" }: IncomingMessage): void {
  if (!TARGET.test(url))
    throw new ServiceError(Reason.MALFORMED_REQUEST, "The request target must be a path.");
}
