import type { PostgreSqlConnection } from "@mikro-orm/postgresql";

type Pool = Awaited<ReturnType<PostgreSqlConnection["getNativeClient"]>>;

/**
 * Gives the place of a connection that breaks back to the pool. A transaction that finds its connection broken when it
 * begins or ends keeps the place (Kysely's ControlledTransaction releases on success alone), and before long none is left.
 */
export function giveBackBroken(pool: Pool): void {
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
