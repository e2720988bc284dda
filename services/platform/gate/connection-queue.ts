import type { Socket } from "node:net";

/**
 * Time between two connections of an address that has exceeded its share, in ms: per connection
 * that was closed for that reason, and at most. A client whose connection was closed once hardly
 * notices; a flood costs as much as one or two of its connections per second.
 */
const SLOW_MS_PER_CUT = 50;
const MAX_SLOW_MS = 1_000;

/**
 * Passes new connections to their server, one per address and turn of the event loop. Node parses
 * everything that a connection has sent before it can be closed: up to 64 KiB, which takes 20 ms
 * for pipelined requests. Hundreds of such connections in one turn would delay all other callers by
 * seconds, and one in each turn by a multiple of 20 ms. Therefore the connections of an address
 * that exceeds its share wait longer.
 * @param serve starts reading a connection
 * @param isListening whether connections are still served; if not, waiting ones are closed
 */
export function createConnectionQueue(serve: (socket: Socket) => void, isListening: () => boolean) {
  /**
   * Waiting connections by address. An empty list means that the address was served in this turn.
   */
  const waiting = new Map<string, Socket[]>();
  const slowed = new Map<string, number>();
  // Nothing reads a connection while it waits, so its error or end would otherwise go unnoticed.
  const ignoreError = () => {};
  const destroyEnded = function (this: Socket) {
    this.destroy();
  };

  function scheduleNext(address: string): void {
    const cuts = slowed.get(address) ?? 0;
    if (cuts === 0) setImmediate(serveNext, address);
    else setTimeout(serveNext, Math.min(cuts * SLOW_MS_PER_CUT, MAX_SLOW_MS), address).unref();
  }

  function serveNext(address: string): void {
    const sockets = waiting.get(address) ?? [];
    if (!isListening()) for (const socket of sockets) socket.destroy();
    let socket = sockets.shift();
    while (socket?.destroyed) socket = sockets.shift();
    if (!socket) return void waiting.delete(address);
    serve(socket.off("error", ignoreError).off("end", destroyEnded));
    scheduleNext(address);
  }

  return {
    /**
     * Adds a connection. It is served immediately if no other connection of its address is waiting.
     */
    add(socket: Socket, address: string): void {
      const sockets = waiting.get(address);
      if (sockets)
        return void sockets.push(socket.on("error", ignoreError).on("end", destroyEnded));
      waiting.set(address, []);
      serve(socket);
      scheduleNext(address);
    },
    /** Serves the connections of an address slowly for some time. */
    slowDown(address: string, forMs: number): void {
      slowed.set(address, (slowed.get(address) ?? 0) + 1);
      const restore = () => {
        const others = (slowed.get(address) ?? 1) - 1;
        if (others > 0) slowed.set(address, others);
        else slowed.delete(address);
      };
      setTimeout(restore, forMs).unref();
    },
  };
}
