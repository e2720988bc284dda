import { setImmediate as nextTurn, setTimeout as rest } from "node:timers/promises";
import type { onRequestHookHandler } from "fastify";
import type { LatestAnswer } from "./answers.ts";

/**
 * Makes the hook that begins a connection's requests one after the other, each in a turn of the event loop of its own:
 * whoever sends thousands at once (RFC 9112 section 9.3.2) holds up nobody else.
 */
export function inTurn(latestOn: LatestAnswer): onRequestHookHandler {
  return ({ raw: { socket } }, _reply, done) => {
    const before = latestOn(socket);
    if (!before || before.closed) return done();
    before.once("close", () => setImmediate(() => socket.destroyed || done())); // whoever has gone asks no more
  };
}

/** A turn of so many ms leaves enough to everybody else. */
const SHORT_MS = 10;

let rested = Promise.resolve(); // one line for the process, as there is one event loop

/**
 * Resolves in a turn of the event loop that is nobody else's, who asks for one so. After a long one everybody else has as
 * much time as it took: most answers take several turns, and a large body that is costly to read a tenth of a second.
 */
export function ownTurn(): Promise<void> {
  const mine = rested;
  rested = mine.then(async () => {
    const began = performance.now();
    await nextTurn();
    const tookMs = performance.now() - began;
    if (tookMs > SHORT_MS) await rest(tookMs);
  });
  return mine;
}
