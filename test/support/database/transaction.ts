// Open transactions that requests wait for.

import pg from "pg";
import { until } from "../until.ts";

/** Begins a transaction on PostgreSQL by a statement. */
export async function begin(url: string, statement: string, values: unknown[]) {
  const client = new pg.Client(url);
  await client.connect();
  await client.query("begin");
  await client.query(statement, values);
  return {
    /** Waits until another transaction waits for this one. */
    async toBeWaitedFor() {
      await until("another transaction to wait for this one", async () => {
        const { rows } = await client.query(
          "select 1 from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))",
        );
        return rows.length > 0;
      });
    },
    /** Runs a further statement. */
    run: async (next: string, nextValues: unknown[]) => void (await client.query(next, nextValues)),
    async commit() {
      await client.query("commit");
      await client.end();
    },
  };
}

/**
 * Sends a request that waits for a transaction. The transaction then runs further statements, and
 * commits.
 * @returns the response
 */
export async function commitMeanwhile<T>(
  url: string,
  statement: string,
  values: unknown[],
  request: () => Promise<T>,
  further: [statement: string, values: unknown[]][] = [],
): Promise<T> {
  const transaction = await begin(url, statement, values);
  const response = request();
  await transaction.toBeWaitedFor();
  for (const [next, nextValues] of further) await transaction.run(next, nextValues);
  await transaction.commit();
  return response;
}
