import type { IncomingMessage } from "node:http";
import type { FastifyRequest } from "fastify";
import { Reason } from "../gen/gatehouse/platform/v1/failure_pb.ts";
import { ServiceError } from "../services/platform/errors.ts";
import { placeOf } from "./places.ts";
import { DEFAULT_BODY_BYTES } from "./transcode/binding.ts";
import { ownTurn } from "./turns.ts";

const NOTHING = Buffer.alloc(0);
const BROKEN_OFF = new ServiceError(Reason.MALFORMED_REQUEST, "The request broke off.");
const TOO_LARGE = new ServiceError(Reason.PAYLOAD_TOO_LARGE, "The body is larger than this route accepts.");
const TOO_MANY = new ServiceError(
  Reason.UNAVAILABLE,
  "Too many large requests are being answered. Please try again in a moment.",
);

type Done = (error: Error | null, body?: Buffer) => void;

/**
 * Reads a body. They come from clients who are not authenticated yet: so parts are joined as they come, however small
 * they are, and nothing is kept that the request has no place for.
 */
export function readBody(request: FastifyRequest, payload: IncomingMessage, done: Done): void {
  const limit = request.routeOptions.bodyLimit;
  const place = placeOf(request);
  let room = NOTHING;
  let bytes = 0;

  const settle: Done = (error, body) => {
    payload.off("data", take).off("end", finish).off("error", fail);
    if (error) place?.fit(0);
    done(error, body);
  };
  const fail = () => settle(BROKEN_OFF);
  const giveUp = () => settle(TOO_MANY);
  const pass = () => settle(null, room.subarray(0, bytes));
  const finish = () => {
    place?.fit(bytes); // it is all there: nobody takes its room any more
    if (bytes <= DEFAULT_BODY_BYTES) return pass();
    ownTurn().then(() => (payload.socket.destroyed ? fail() : pass())); // what it says is read then, unless nobody waits
  };
  const take = (part: Buffer) => {
    const start = bytes;
    bytes += part.length;
    if (bytes > limit) return settle(TOO_LARGE);
    if (bytes > room.length) {
      const size = Math.min(Math.max(bytes, 2 * room.length), limit);
      if (!place?.fit(size, giveUp)) return giveUp();
      room = Buffer.concat([room], size);
    }
    room.set(part, start);
  };
  payload.on("data", take).on("end", finish).on("error", fail);
}
