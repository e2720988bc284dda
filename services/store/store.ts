import type { SqlEntityManager } from "@mikro-orm/postgresql";
import type { OnStatement } from "../platform/telemetry/tracing.ts";
import { type Db, type HotDb, oneRow, type Statement } from "./statement.ts";

/** The database: a PostgreSQL server, an embedded one in a folder, or an embedded one in memory. */
export type DatabaseLocation =
  | { kind: "postgres"; url: string; statementMs?: number }
  | { kind: "folder"; path: string }
  | { kind: "memory" };

/** The current time of the database's clock. */
export const readDatabaseTime = async (db: Db): Promise<Date> =>
  (await oneRow<{ now: Date }>(db, "select clock_timestamp() as now")).now;

export type Store = Omit<Engine, "em" | "run"> &
  HotDb & {
    /** A new unit of work for one call. Inside `transactional`, it joins the transaction. */
    fork(): SqlEntityManager;
  };

/** What runs the statements of a store: a PostgreSQL server, or PostgreSQL inside this process. */
export type Engine = {
  em: SqlEntityManager;
  /** Runs a prepared statement with its parameter values, in order. */
  run(statement: Statement, values: unknown[]): Promise<{ rows: unknown[] }>;
  /** Migrates the schema. Any number of processes may call it concurrently. */
  migrate(): Promise<void>;
  /** The connections of this process, and the number of calls waiting for one. */
  connections(): { used: number; idle: number; waiting: number };
  /** Resolves if the database is reachable and writable and, if embedded, has disk space. */
  ping(): Promise<void>;
  close(): Promise<void>;
};

/**
 * Creates the store of an engine.
 * @param onStatement called for prepared statements; the ORM reports its own
 */
export function storeOf({ em, run, ...engine }: Engine, onStatement?: OnStatement): Store {
  return {
    ...engine,
    fork: () => em.fork({ useContext: true }), // PGlite has one connection: a query outside the current transaction would wait forever
    async query<Row>(statement: Statement, values: unknown[]) {
      const startedAt = performance.now();
      let rows: unknown[] | undefined;
      try {
        ({ rows } = await run(statement, values));
        return rows as Row[];
      } finally {
        onStatement?.(statement.text, performance.now() - startedAt, rows === undefined);
      }
    },
  };
}

/** Keys of advisory locks, by purpose. Arbitrary numbers, but the same in every process. */
export const LOCKS = {
  migrate: 7_230_001,
  sealAudit: 7_230_002,
  makeKey: 7_230_003,
  firstAdmin: 7_230_004,
  addWebhook: 7_230_005,
  emailsTo: 7_230_006, // with the hash of an address
} as const;
