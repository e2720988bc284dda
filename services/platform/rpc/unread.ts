import { type ContextValues, createContextKey } from "@connectrpc/connect";
import { z } from "zod";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { MAX_VIOLATIONS, ServiceError, type Violation } from "./errors.ts";

/**
 * The parts of a request that a port could not read. The port passes the call on anyway, since the
 * services check the role of the caller before they reject the request.
 */
export type Unread = {
  /** The error because of which only the path could be read. */
  fault?: ServiceError;
  /** Fields with a value of the wrong type. The message has zero values in their place. */
  typeErrors?: readonly Violation[];
};

/** Context key for the unread parts of a request, from a port to services in the same process. */
export const unreadKey = createContextKey<Unread | undefined>(undefined, {
  description: "unread parts of a request",
});

/** The unread fields of a request, at most as many as are reported. */
export const unreadFields = (typeErrors: readonly Violation[]): Unread =>
  typeErrors.length > 0 ? { typeErrors: typeErrors.slice(0, MAX_VIOLATIONS) } : {};

/** Metadata in which a gateway passes the unread parts to services in another process, as JSON. */
const FAULT = "x-gatehouse-fault";
const TYPE_ERRORS = "x-gatehouse-type-errors";
const faultSchema = z.object({ reason: z.enum(Reason), message: z.string() });
const typeErrorsSchema = z.array(z.object({ field: z.string(), message: z.string() }));

/** Writes the unread parts of a request into the metadata of its call to another process. */
export function writeUnread(header: Headers, values: ContextValues | undefined): void {
  const { fault, typeErrors } = values?.get(unreadKey) ?? {};
  if (fault) header.set(FAULT, JSON.stringify({ reason: fault.reason, message: fault.message }));
  if (typeErrors) header.set(TYPE_ERRORS, JSON.stringify(typeErrors));
}

/**
 * The unread parts of a request, from the port of this process or from the metadata of a gateway.
 * Any caller may send that metadata, because it can only cause the caller's own request to be
 * rejected.
 * @throws ServiceError MALFORMED_REQUEST for metadata that can't be parsed
 */
export const unreadOf = (header: Headers, values: ContextValues): Unread =>
  values.get(unreadKey) ?? readUnread(header);

function readUnread(header: Headers): Unread {
  const fault = readJson(header, FAULT, faultSchema);
  const typeErrors = readJson(header, TYPE_ERRORS, typeErrorsSchema);
  return {
    ...(fault && { fault: new ServiceError(fault.reason, fault.message) }),
    ...(typeErrors && { typeErrors }),
  };
}

function readJson<T>(header: Headers, name: string, schema: z.ZodType<T>): T | undefined {
  const sent = header.get(name);
  if (sent === null) return undefined;
  try {
    return schema.parse(JSON.parse(sent));
  } catch {
    throw new ServiceError(Reason.MALFORMED_REQUEST, `The metadata ${name} can't be read.`);
  }
}
