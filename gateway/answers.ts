import type { Server, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

/** The answer to a connection's latest request; undefined before the first. */
export type LatestAnswer = (socket: Duplex) => ServerResponse | undefined;

/** Follows a server's connections. The server's own handler runs first: to its hooks the latest is the one before theirs. */
export function followAnswers(server: Server): LatestAnswer {
  const latest = new WeakMap<Duplex, ServerResponse>();
  server.on("request", ({ socket }, response) => latest.set(socket, response));
  return (socket) => latest.get(socket);
}
