import type { Socket } from "node:net";
import type { PostgreSqlConnection } from "@mikro-orm/postgresql";

/** The driver's pool of connections to PostgreSQL. */
export type Pool = Awaited<ReturnType<PostgreSqlConnection["getNativeClient"]>>;

/**
 * Gives the place of a connection that breaks back to the pool. A transaction that finds its connection broken when it
 * begins or ends keeps the place (Kysely's ControlledTransaction releases on success alone), and before long none is left.
 */
export function releaseBrokenConnections(pool: Pool): void {
  const lent = new WeakMap<object, boolean>();
  pool.on("release", (_error, client) => lent.set(client, false));
  pool.on("acquire", (client) => {
    const known = lent.has(client);
    lent.set(client, true);
    if (known) return;
    client.once("end", () => {
      if (!lent.get(client)) return;
      const { release } = client;
      client.release = () => {}; // whoever holds it may still give it back
      release(true);
    });
  });
}

/**
 * Breaks connections that are silent for longer than any statement may take: a network partition leaves them open for
 * hours, and with them whoever waits for an answer.
 */
export function destroyUnresponsive(pool: Pool, silenceMs: number): void {
  const known = new WeakSet<object>();
  pool.on("acquire", (client) => {
    if (known.has(client)) return; // not on "connect": the pool's first connection is made before this can listen
    known.add(client);
    const socket = socketOf(client);
    socket.setTimeout(silenceMs, () => socket.destroy(new Error("connection timeout: the database is silent")));
  });
}

/** The socket of a connection, which the driver's types hide. */
const socketOf = (client: object) => (client as { connection: { stream: Socket } }).connection.stream;
