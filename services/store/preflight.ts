import type { Logger } from "pino";
import type { Pool } from "./pool-fixes.ts";
import { ignoredParameters } from "./postgres-url.ts";

/**
 * Refuses a pooler that forgets, and a database that can't hold every character: a start succeeds with them, and then
 * requests fail by chance or by the letters of a name. Warns of a database that confirms a commit before it is on disk,
 * and of parameters of the URL that have no effect.
 * @throws Error for operators
 */
export async function checkServer(pool: Pool, url: string, log: Logger): Promise<void> {
  const parameters = ignoredParameters(url);
  if (parameters.length > 0) log.warn({ parameters }, "DATABASE_URL has parameters that change nothing");
  await checkPooler(pool);
  const client = await pool.connect();
  try {
    const { rows } = await client.query(
      "select current_setting('server_encoding') as encoding, current_setting('synchronous_commit') as commit",
    );
    const [{ encoding, commit }] = rows as [{ encoding: string; commit: string }];
    if (encoding !== "UTF8") throw new Error(`the database there is ${encoding}. Make one with encoding 'UTF8'`);
    if (commit === "off") log.warn("synchronous_commit is off: what was answered is lost when PostgreSQL crashes");
  } finally {
    client.release(true); // also where nobody closes the pool after this
  }
}

/** A pooler that hands one server connection from client to client must remember whose prepared statements are on it. */
async function checkPooler(pool: Pool): Promise<void> {
  const clients = await Promise.all([pool.connect(), pool.connect()]);
  try {
    for (const client of clients) await client.query({ name: "pooler_probe", text: "select 1" });
  } catch (error) {
    if ((error as { code?: string }).code !== "42P05") throw error; // it exists: this is another client's connection
    throw new Error("the pooler there mixes up prepared statements. Let it keep them, or its clients their sessions", {
      cause: error,
    });
  } finally {
    for (const client of clients) client.release(true); // also where nobody closes the pool after this
  }
}
