import type { Socket } from "node:net";
import type { PostgreSqlConnection } from "@mikro-orm/postgresql";

type Pool = Awaited<ReturnType<PostgreSqlConnection["getNativeClient"]>>;

/** The socket of a connection, which its type keeps to itself. */
const socketOf = (client: object) => (client as { connection: { stream: Socket } }).connection.stream;

/**
 * Breaks connections that are silent for longer than any statement may take: a partition of the network leaves them open
 * for hours, and whoever waits for an answer with them.
 */
export function breakSilent(pool: Pool, silenceMs: number): void {
  const known = new WeakSet<object>();
  pool.on("acquire", (client) => {
    if (known.has(client)) return; // the first one stands before anybody could listen to its connecting
    known.add(client);
    const socket = socketOf(client);
    socket.setTimeout(silenceMs, () => socket.destroy(new Error("connection timeout: the database is silent")));
  });
}
