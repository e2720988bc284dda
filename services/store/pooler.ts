import type { PostgreSqlConnection } from "@mikro-orm/postgresql";

type Pool = Awaited<ReturnType<PostgreSqlConnection["getNativeClient"]>>;

/**
 * Refuses a pooler that hands one server connection from client to client and forgets whose prepared statements are on
 * it: a start succeeds with one, and then requests fail by chance.
 * @throws Error for operators
 */
export async function refuseForgetfulPooler(pool: Pool): Promise<void> {
  const clients = await Promise.all([pool.connect(), pool.connect()]);
  try {
    for (const client of clients) await client.query({ name: "pooler_probe", text: "select 1" });
  } catch (error) {
    if ((error as { code?: string }).code !== "42P05") throw error; // it exists: somebody else's connection was given us
    throw new Error("the pooler there mixes up prepared statements. Let it keep them, or its clients their sessions", {
      cause: error,
    });
  } finally {
    for (const client of clients) client.release(true); // also where nobody closes the pool after this
  }
}
