import type { IncomingMessage } from "node:http";
import type { FastifyRequest } from "fastify";
import { Reason } from "../gen/gatehouse/platform/v1/failure_pb.ts";
import { Refused } from "./transcode/errors.ts";

/** Bytes of large bodies that may be arriving at once, over all connections. */
export const ARRIVING_BYTES = 256 * 1024 * 1024;
/** Bodies up to this size arrive however many large ones do, in bytes. */
const SMALL_BYTES = 32 * 1024;

const NOTHING = Buffer.alloc(0);
const BROKEN_OFF = new Refused(Reason.MALFORMED_REQUEST, "The request broke off.");
const TOO_LARGE = new Refused(Reason.PAYLOAD_TOO_LARGE, "The body is larger than this route accepts.");
const TOO_MANY = new Refused(Reason.UNAVAILABLE, "Too many large requests are arriving. Please try again in a moment.");

type Done = (error: Error | null, body?: Buffer) => void;

/**
 * Makes the reader of bodies. They come from clients who are not authenticated yet: so parts are joined as they come,
 * however small they are, and all large bodies together have a bound.
 * @param most bytes of large bodies that may be arriving at once
 */
export function createBodyReader(
  most: number,
): (request: FastifyRequest, payload: IncomingMessage, done: Done) => void {
  let arriving = 0;
  return (request, payload, done) => {
    const limit = request.routeOptions.bodyLimit;
    let room = NOTHING;
    let bytes = 0;
    let reserved = 0;

    const settle: Done = (error, body) => {
      payload.off("data", take).off("end", finish).off("error", fail);
      arriving -= reserved;
      done(error, body);
    };
    const fail = () => settle(BROKEN_OFF);
    const finish = () => settle(null, room.subarray(0, bytes));
    const take = (part: Buffer) => {
      const start = bytes;
      bytes += part.length;
      if (bytes > limit) return settle(TOO_LARGE);
      if (bytes > room.length) {
        const size = Math.min(Math.max(bytes, 2 * room.length), limit);
        const asked = size > SMALL_BYTES ? size - reserved : 0;
        if (arriving + asked > most) return settle(TOO_MANY);
        arriving += asked;
        reserved += asked;
        room = Buffer.concat([room], size);
      }
      room.set(part, start);
    };
    payload.on("data", take).on("end", finish).on("error", fail);
  };
}
