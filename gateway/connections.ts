import type { Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/**
 * Bounds the connections of a server, each of which costs memory before it asks anything. Whoever comes takes the place
 * of the one that has been silent the longest: between two requests, or before its headers were whole.
 */
export function boundConnections(server: Server, most: number): void {
  const silent = new Set<Socket>();
  const latest = new WeakMap<Socket, ServerResponse>();
  let open = 0;
  server.on("connection", (socket: Socket) => {
    open++;
    silent.add(socket);
    socket.once("close", () => {
      open--;
      silent.delete(socket);
    });
    if (open <= most) return;
    const [longest = socket] = silent;
    silent.delete(longest);
    longest.destroy();
  });
  server.on("request", ({ socket }: { socket: Socket }, response: ServerResponse) => {
    silent.delete(socket);
    latest.set(socket, response);
    response.once("close", () => {
      if (latest.get(socket) === response && !socket.destroyed) silent.add(socket); // else another one waits in line
    });
  });
}
