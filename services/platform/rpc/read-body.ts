import type { Readable } from "node:stream";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Permit } from "../gate/admission.ts";
import { ServiceError } from "./errors.ts";

/** The error for a body that exceeds the size limit of its method. */
export const payloadTooLarge = (maxBytes: number) =>
  new ServiceError(Reason.PAYLOAD_TOO_LARGE, `The body exceeds the maximum of ${maxBytes} bytes.`);

/**
 * Reads a body up to the size limit. Parts are joined as they arrive, since many small buffers cost
 * more memory than their content. After an error, the rest is discarded.
 * @param permit reserves memory for the body
 * @param timeoutMs maximum time until the end of the body; 0 if the server has its own limit
 * @throws ServiceError PAYLOAD_TOO_LARGE, TOO_MANY_CONCURRENT, UNAVAILABLE, REQUEST_TIMEOUT,
 * MALFORMED_REQUEST if the client disconnects
 */
export function readBody(
  stream: Readable,
  permit: Permit | undefined,
  maxBytes: number,
  timeoutMs = 0,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let buffer = Buffer.alloc(0);
    let bytes = 0;
    const finish = (error?: unknown) => {
      clearTimeout(timer);
      stream.off("data", add).off("end", finish).off("error", breakOff).off("close", breakOff);
      if (error === undefined) return resolve(buffer.subarray(0, bytes));
      buffer = Buffer.alloc(0);
      stream.on("error", () => {}).resume();
      reject(error);
    };
    const add = (part: Buffer) => {
      const start = bytes;
      bytes += part.length;
      try {
        if (bytes > maxBytes) throw payloadTooLarge(maxBytes);
        permit?.reserveBody(bytes);
      } catch (error) {
        return finish(error);
      }
      const capacity = Math.min(Math.max(bytes, 2 * buffer.length), maxBytes);
      if (bytes > buffer.length) buffer = Buffer.concat([buffer], capacity);
      buffer.set(part, start);
    };
    const breakOff = () =>
      finish(new ServiceError(Reason.MALFORMED_REQUEST, "The request ended prematurely."));
    const late = () =>
      finish(new ServiceError(Reason.REQUEST_TIMEOUT, "The request took too long to arrive."));
    const timer = timeoutMs > 0 ? setTimeout(late, timeoutMs) : undefined;
    stream.on("data", add).on("end", finish).on("error", breakOff).on("close", breakOff);
  });
}
