import type { Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { LatestAnswer } from "./answers.ts";

/**
 * Bounds the connections of a server, each of which costs memory before it asks anything. Whoever comes takes the place
 * of the one that has been silent the longest: between two requests, or before its headers were whole.
 */
export function boundConnections(server: Server, most: number, latestOn: LatestAnswer): void {
  const silent = new Set<Socket>();
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
    response.once("close", () => {
      if (latestOn(socket) === response && !socket.destroyed) silent.add(socket); // else another one waits in line
    });
  });
}
