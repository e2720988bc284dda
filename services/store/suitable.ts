import type { PostgreSqlConnection } from "@mikro-orm/postgresql";
import type { Logger } from "pino";
import { refuseForgetfulPooler } from "./pooler.ts";
import { unheeded } from "./postgres-url.ts";

type Pool = Awaited<ReturnType<PostgreSqlConnection["getNativeClient"]>>;

/**
 * Refuses a pooler that forgets, and a database that can't hold every character: a start succeeds with them, and then
 * requests fail by chance or by the letters of a name. Tells of one that answers before it has written something down,
 * and of what its URL asks for in vain.
 * @throws Error for operators
 */
export async function refuseUnsuitable(pool: Pool, url: string, log: Logger): Promise<void> {
  const parameters = unheeded(url);
  if (parameters.length > 0) log.warn({ parameters }, "DATABASE_URL has parameters that change nothing");
  await refuseForgetfulPooler(pool);
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
