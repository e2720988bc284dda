import pg from "pg";
import { until } from "./until.ts";

/** An open transaction of a test. */
type Transaction = {
  /** Waits until another transaction waits for this one. */
  toBeWaitedFor(): Promise<void>;
  /** Runs a further statement. */
  run(statement: string, values: unknown[]): Promise<void>;
  commit(): Promise<void>;
};

/** Begins a transaction on PostgreSQL by a statement. */
export async function begin(url: string, statement: string, values: unknown[]): Promise<Transaction> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query("begin");
  await client.query(statement, values);
  return {
    async toBeWaitedFor() {
      await until("another transaction to wait for this one", async () => {
        const { rows } = await client.query(
          "select 1 from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))",
        );
        return rows.length > 0;
      });
    },
    run: async (next, nextValues) => void (await client.query(next, nextValues)),
    async commit() {
      await client.query("commit");
      await client.end();
    },
  };
}

/** Sends a request that waits for a transaction, and commits the transaction then. @returns the response */
export async function commitMeanwhile<T>(
  url: string,
  statement: string,
  values: unknown[],
  request: () => Promise<T>,
): Promise<T> {
  const transaction = await begin(url, statement, values);
  const response = request();
  await transaction.toBeWaitedFor();
  await transaction.commit();
  return response;
}
