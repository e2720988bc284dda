import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { onRequestHookHandler } from "fastify";

/**
 * Makes the hook that begins a connection's requests one after the other, each in a turn of the event loop of its own:
 * whoever sends thousands at once (RFC 9112 section 9.3.2) holds up nobody else.
 */
export function inTurn(): onRequestHookHandler {
  const latest = new WeakMap<Socket, ServerResponse>();
  return ({ raw: { socket } }, { raw }, done) => {
    const before = latest.get(socket);
    latest.set(socket, raw);
    if (!before || before.closed) return done();
    before.once("close", () => setImmediate(() => socket.destroyed || done())); // whoever has gone asks no more
  };
}
