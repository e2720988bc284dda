import type { SqlEntityManager } from "@mikro-orm/postgresql";
import type { Logger } from "pino";
import { asDatabaseUrlError } from "./errors.ts";
import { openPostgres } from "./postgres.ts";

/** Where the rows are: PostgreSQL by URL, an embedded one in a folder, or an embedded one that keeps nothing. */
export type DatabaseLocation =
  | { kind: "postgres"; url: string; statementMs?: number }
  | { kind: "folder"; path: string }
  | { kind: "memory" };

/** What a statement runs on: the unit of work of a call, and its transaction while one is open. */
export type Db = { em: SqlEntityManager };

/** What a prepared statement of a hot path runs on: a connection of its own, outside of any transaction. */
export type HotDb = Pick<Store, "query">;

/** A row as both engines read it: times are text. */
export type AsRead<Row> = { [Column in keyof Row]: Row[Column] extends Date ? string : Row[Column] };

/** SQL with $1, $2 for its values; a connection parses and plans it once and finds it again by its name. */
export type Statement = { name: string; text: string };

/** Prepares SQL that has `?` for its values. */
export function prepared(name: string, sql: string): Statement {
  let count = 0;
  return { name, text: sql.replaceAll("?", () => `$${++count}`) };
}

/** An open database. */
export type Store = {
  /** A fresh unit of work for one call. Inside `transactional` it joins the transaction by itself. */
  fork(): SqlEntityManager;
  /** Runs a statement of the hot path, past the ORM and beside every transaction; rows are as `execute` gives them. */
  query<Row>(statement: Statement, values: unknown[]): Promise<Row[]>;
  /** Brings the schema up to date; any number of processes may call it at once. */
  migrate(): Promise<void>;
  /** Resolves when the database answers and takes writes, and an embedded one has room. */
  ping(): Promise<void>;
  close(): Promise<void>;
};

/**
 * Opens the database; the same entities and migrations serve both engines, of which the embedded one is loaded only where
 * it is used.
 * @throws Error for operators, when another process uses the folder, or nothing answers at the URL
 */
export async function openStore(location: DatabaseLocation, log: Logger): Promise<Store> {
  if (location.kind !== "postgres") return (await import("./embedded.ts")).openEmbedded(location, log);
  return openPostgres(location.url, log, location.statementMs).catch(asDatabaseUrlError);
}
