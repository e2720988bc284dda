import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { FastifyRequest, onRequestHookHandler } from "fastify";
import { Reason } from "../gen/gatehouse/platform/v1/failure_pb.ts";
import { ServiceError } from "../services/platform/errors.ts";
import { isHealthPath } from "./health.ts";
import { DEFAULT_BODY_BYTES } from "./transcode/binding.ts";

/** The memory and the event loop that all requests of a process share; `bytes` are those of a body, or of an answer. */
export type Room = {
  enter(request: { use: "patient" | "brief" | "health"; answerBytes: number }): Place | undefined;
  connections: number;
  /** Runs a job now, or in line where others have kept the process busy. The job may not throw. */
  soon(job: () => void): void;
};

/** What one request may hold, until it is over. */
export type Place = {
  fit(bodyBytes: number, giveUp?: () => void): boolean;
  pile(isUnread: boolean): boolean;
  leave(): void;
};

/** What a route says of the requests to it. */
export type RouteConfig = { answerBytes?: number };

const FULL = new ServiceError(
  Reason.UNAVAILABLE,
  "Too many requests are being answered. Please try again in a moment.",
);

const places = new WeakMap<IncomingMessage, Place>();

/** The place of a request that was let in. */
export const placeOf = (request: FastifyRequest): Place | undefined => places.get(request.raw);

/**
 * Makes the hook that takes each request's place until its answer is over. Without one a request is refused, and the
 * connection cut if others are to be answered on it before: what waits in line costs as much as what is under way.
 */
export function takePlaces(room: Room): onRequestHookHandler {
  const lines = new WeakMap<Socket, Set<Place>>();
  const lineOf = (socket: Socket) => {
    const known = lines.get(socket);
    if (known) return known;
    const line = new Set<Place>();
    lines.set(socket, line);
    socket.once("close", () => {
      for (const place of line) place.leave(); // answers that were never begun don't say that they are over
    });
    return line;
  };
  return (request, reply, done) => {
    const { raw } = request;
    const line = lineOf(raw.socket);
    const place = room.enter(expectedOf(request));
    if (!place) return line.size > 0 ? void raw.socket.destroy() : done(FULL);
    line.add(place);
    places.set(raw, place);
    reply.raw.once("close", () => {
      line.delete(place);
      place.leave();
    });
    done();
  };
}

function expectedOf({
  routeOptions: { url = "", config, bodyLimit = 0 },
}: FastifyRequest): Parameters<Room["enter"]>[0] {
  if (isHealthPath(url)) return { use: "health", answerBytes: 0 };
  const { answerBytes = 0 } = config as RouteConfig;
  return { use: answerBytes > 0 || bodyLimit > DEFAULT_BODY_BYTES ? "patient" : "brief", answerBytes };
}
