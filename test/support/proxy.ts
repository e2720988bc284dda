import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/**
 * Stands between the product and a server that a test takes away: nothing else of the run is disturbed.
 * @param hear is told what the server says
 */
export async function startProxy(target: { host: string; port: number }, hear: (part: Buffer) => void = () => {}) {
  const sockets = new Set<Socket>();
  let state: "open" | "cut" | "silent" | "uncommitted" = "open";
  const server = createServer((near) => {
    if (state === "cut") return near.destroy();
    const far = connect(target.port, target.host);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(socket);
      socket
        .on("error", () => {})
        .on("close", () => {
          sockets.delete(socket);
          other.destroy();
        });
      socket.on("data", (part) => {
        if (socket === far) hear(part);
        if (state === "uncommitted" && socket === far && part.includes("COMMIT\0")) return near.destroy();
        if (state !== "silent") other.write(part);
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    /** The server is gone: connections break, new ones are refused. */
    cut() {
      state = "cut";
      for (const socket of sockets) socket.destroy();
    },
    /** The server takes connections and says nothing any more. */
    silence() {
      state = "silent";
    },
    /** The server commits, and its client never learns it: the connection breaks before the reply. */
    cutAfterCommit() {
      state = "uncommitted";
    },
    restore() {
      state = "open";
      for (const socket of sockets) socket.destroy();
    },
    /** Another server takes the place of the target, as after a failover. */
    moveTo(to: number) {
      target.port = to;
      for (const socket of sockets) socket.destroy();
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
