import type { PostgreSqlConnection } from "@mikro-orm/postgresql";
import type { Logger } from "pino";
import { ignoredParameters } from "./postgres-url.ts";

/** The driver's pool of connections to PostgreSQL. */
export type Pool = Awaited<ReturnType<PostgreSqlConnection["getNativeClient"]>>;

/**
 * Checks at start-up what would make some requests fail later: a pooler that mixes up prepared statements, and an
 * encoding that can't store every character. Warns of `synchronous_commit = off` and of ignored parameters of the URL.
 * @throws Error for operators
 */
export async function checkServer(pool: Pool, url: string, log: Logger): Promise<void> {
  const parameters = ignoredParameters(url);
  if (parameters.length > 0) log.warn({ parameters }, "DATABASE_URL has parameters that are ignored");
  await checkPooler(pool);
  const client = await pool.connect();
  try {
    const { rows } = await client.query(
      "select current_setting('server_encoding') as encoding, current_setting('synchronous_commit') as commit",
    );
    const [{ encoding, commit }] = rows as [{ encoding: string; commit: string }];
    if (encoding !== "UTF8") throw new Error(`the database has encoding ${encoding}. Create one with encoding 'UTF8'`);
    if (commit === "off") log.warn("synchronous_commit is off: a crash of PostgreSQL loses acknowledged changes");
  } finally {
    client.release(true); // a failed check leaves no open connections
  }
}

/** A pooler that shares server connections between clients must track their prepared statements. */
async function checkPooler(pool: Pool): Promise<void> {
  const clients = await Promise.all([pool.connect(), pool.connect()]);
  try {
    for (const client of clients) await client.query({ name: "pooler_probe", text: "select 1" });
  } catch (error) {
    if ((error as { code?: string }).code !== "42P05") throw error; // exists already: another client's connection
    throw new Error("the connection pooler mixes up prepared statements. Let it track them, or use session pooling", {
      cause: error,
    });
  } finally {
    for (const client of clients) client.release(true); // a failed check leaves no open connections
  }
}
