// A TCP proxy that cuts, silences or truncates connections.

import { randomInt } from "node:crypto";
import { connect, createServer, type Socket } from "node:net";
import { addressOf, listen, throughPort } from "./sockets.ts";

/**
 * A TCP proxy before a server, so that a test can interrupt the connections of one product.
 * @param onData gets the bytes that the server sends
 */
export async function startProxy(url: string, onData: (part: Buffer) => void = () => {}) {
  const target = addressOf(url);
  const sockets = new Set<Socket>();
  let state: "open" | "cut" | "silent" | "truncated" | "uncommitted" | "rejecting" = "open";
  let rejection = Buffer.alloc(0);
  const server = createServer((near) => {
    if (state === "cut") return near.destroy();
    if (state === "rejecting") {
      near.on("error", () => {}).once("data", () => near.end(rejection));
      return;
    }
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
    }
    near.on("data", (part) => {
      if (state !== "silent") far.write(part);
    });
    far.on("data", (part) => {
      onData(part);
      if (state === "uncommitted" && part.includes("COMMIT\0")) return near.destroy();
      if (state === "truncated") return near.end(part.subarray(0, randomInt(part.length)));
      if (state !== "silent") near.write(part);
    });
  });
  const ownPort = await listen(server);
  return {
    port: ownPort,
    /** The URL of the server through the proxy. */
    url: throughPort(url, ownPort),
    /** Breaks connections and refuses new ones. */
    cut() {
      state = "cut";
      for (const socket of sockets) socket.destroy();
    },
    /** Breaks connections, and rejects new ones as PostgreSQL does, with an error code. */
    rejectAsPostgres(code: string) {
      const fields = `SFATAL\0VFATAL\0C${code}\0Mrejected\0\0`;
      rejection = Buffer.from(`E\0\0\0${String.fromCharCode(fields.length + 4)}${fields}`);
      state = "rejecting";
      for (const socket of sockets) socket.destroy();
    },
    /** Accepts connections and forwards nothing. */
    silence() {
      state = "silent";
    },
    /** Ends connections in the middle of what the server sends. */
    truncate() {
      state = "truncated";
    },
    /** Breaks a connection between a commit and its reply. */
    cutAfterCommit() {
      state = "uncommitted";
    },
    restore() {
      state = "open";
      for (const socket of sockets) socket.destroy();
    },
    /** Replaces the target with another server, as a failover does. */
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
