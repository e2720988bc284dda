import pg from "pg";
import { until } from "./until.ts";

/** Something that is done in the database beside the product, and not committed yet. */
export type Transaction = {
  /** Waits until somebody waits for it. */
  toBeWaitedFor(): Promise<void>;
  /** Goes on with it. */
  run(statement: string, values: unknown[]): Promise<void>;
  commit(): Promise<void>;
};

/** Does something in a transaction of its own on PostgreSQL, and keeps that open. */
export async function begin(url: string, statement: string, values: unknown[]): Promise<Transaction> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query("begin");
  await client.query(statement, values);
  return {
    async toBeWaitedFor() {
      await until("somebody to wait for the transaction", async () => {
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
