import { randomBytes } from "node:crypto";
import type { SqlEntityManager } from "@mikro-orm/postgresql";
import type { Logger } from "pino";
import { v7 } from "uuid";
import type { Clock } from "../platform/process.ts";
import type { OnStatement } from "../platform/tracing.ts";

/** The database: a PostgreSQL server, an embedded one in a folder, or an embedded one in memory. */
export type DatabaseLocation =
  | { kind: "postgres"; url: string; statementMs?: number }
  | { kind: "folder"; path: string }
  | { kind: "memory" };

/** What a statement runs on: the unit of work of a call, and its transaction while one is open. */
export type Db = { em: SqlEntityManager };
export type ClockedDb = Db & { clock: Clock };

/** What a prepared statement runs on: a connection of its own, outside of any transaction. */
export type HotDb = Pick<Store, "query">;

/** The type `timestamptz` (PostgreSQL's `pg_type.oid`), which both engines read as a `Date`. */
export const TIMESTAMPTZ = 1184;
export const parseTime = (text: string) => new Date(text);

/** Values of a statement by name: SQL has `:name` where the value belongs. */
export type Values = Record<string, unknown>;

/**
 * SQL that each connection prepares once, under its name. PostgreSQL itself numbers its parameters.
 */
export type Statement = { name: string; text: string };

/**
 * A statement of a hot path, as a function of its values.
 * @returns what resolves to its rows
 */
export function prepared<Input extends object, Row = unknown>(name: string, sql: string) {
  const parameters: string[] = [];
  const text = sql.replace(/(?<!:):([a-z]\w*)/gi, (_, parameter: string) => {
    if (!parameters.includes(parameter)) parameters.push(parameter);
    return `$${parameters.indexOf(parameter) + 1}`;
  });
  const statement = { name, text };
  const inOrder = (input: Values) => parameters.map((parameter) => input[parameter]);
  return ({ query }: HotDb, input: Input) => query<Row>(statement, inOrder(input as Values));
}

/**
 * Runs a statement that always returns a row.
 * @returns the first one
 */
export const oneRow = <Row extends object>(
  { em }: Db,
  sql: string,
  values: Values = {},
): Promise<Row> => em.execute<Row>(sql, values, "get");

/**
 * Runs a statement.
 * @returns its first row, if it returns any
 */
export const firstRow = <Row extends object>(
  db: Db,
  sql: string,
  values?: Values,
): Promise<Row | undefined> => oneRow(db, sql, values);

/**
 * Runs a statement.
 * @returns whether it returns a row
 */
export const returnsRow = async (db: Db, sql: string, values?: Values): Promise<boolean> =>
  (await firstRow(db, sql, values)) !== undefined;

/** The present time by the clock of the database. */
export const readDatabaseTime = async (db: Db): Promise<Date> =>
  (await oneRow<{ now: Date }>(db, "select clock_timestamp() as now")).now;

/** A row by the names of its columns, for `jsonb_populate_record`. */
export function toColumns(row: object): Record<string, unknown> {
  const columnOf = (field: string) =>
    field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.fromEntries(Object.entries(row).map(([field, value]) => [columnOf(field), value]));
}

export type Store = Omit<Engine, "em" | "run"> & {
  /** A new unit of work for one call. Inside `transactional` it joins the transaction. */
  fork(): SqlEntityManager;
  /**
   * Runs a prepared statement without the ORM, outside of any transaction. Rows are the same as
   * those of `execute`.
   */
  query<Row>(statement: Statement, values: unknown[]): Promise<Row[]>;
};

/** What runs the statements of a store: a PostgreSQL server, or PostgreSQL in this process. */
export type Engine = {
  em: SqlEntityManager;
  /** Runs a prepared statement with the values of its parameters, in order. */
  run(statement: Statement, values: unknown[]): Promise<{ rows: unknown[] }>;
  /** Migrates the schema. Any number of processes may call it at once. */
  migrate(): Promise<void>;
  /** The connections of this process, and the calls that wait for one. */
  connections(): { used: number; idle: number; waiting: number };
  /** Resolves if the database is reachable and writable and, if it is embedded, has disk space. */
  ping(): Promise<void>;
  close(): Promise<void>;
};

/**
 * The store of an engine.
 * @param onStatement learns of prepared statements: the ORM reports its own
 */
export function storeOf({ em, run, ...engine }: Engine, onStatement?: OnStatement): Store {
  return {
    ...engine,
    fork: () => em.fork({ useContext: true }), // PGlite has one connection: a query outside the current transaction would wait for ever
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

/** Keys of advisory locks, by purpose. Arbitrary numbers, the same for every process. */
export const LOCKS = { migrate: 7_230_001, sealAudit: 7_230_002, makeKey: 7_230_003 } as const;

/** Length of an id in bytes. */
export const ID_BYTES = 16;
/** Random bytes, fetched for many ids at once: one by one costs more than the rest of an id. */
let pool = Buffer.alloc(0);

/**
 * Creates an id of a row (UUID version 7, RFC 9562 section 5.7). Ids of later rows sort after it.
 */
export function newId(now: Date): string {
  if (pool.length === 0) pool = randomBytes(256 * ID_BYTES);
  const random = pool.subarray(0, ID_BYTES);
  pool = pool.subarray(ID_BYTES);
  return v7({ msecs: now.getTime(), random });
}

/** The lowest id of a moment, which is 1970 at the earliest: ids of earlier rows sort before it. */
export const lowestId = (at: Date): string =>
  v7({ msecs: Math.max(0, at.getTime()), random: new Uint8Array(ID_BYTES) });

/**
 * An id as PostgreSQL writes it: callers may spell it in capitals (RFC 9562 section 4), which no
 * comparison would match.
 */
export const canonicalId = (sent: string): string => sent.toLowerCase();

/** Encodes the first 16 bytes as an id, whether or not they are a UUID of any version. */
export const idOfBytes = (bytes: Buffer): string =>
  bytes.toString("hex", 0, ID_BYTES).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");

/** The bytes of an id, whether or not it is a UUID of any version. */
export const bytesOfId = (id: string): Buffer => Buffer.from(id.replaceAll("-", ""), "hex");

/** Time after which a failed write is tried again, in ms. */
const RETRY_MS = 1_000;
/** Most items that wait, while the database is unreachable; the oldest are dropped first. */
const MAX_ITEMS = 20_000;

type BatchOptions<Item> = {
  name: string;
  /** Time from the first item until all are written together, in ms. */
  intervalMs: number;
  /** Most items that one call of `write` takes. */
  batchSize: number;
  write(items: Item[]): Promise<unknown>;
  log: Pick<Logger, "warn">;
};

/**
 * Collects items and writes them together. Logs the first of several failures in a row, keeps the
 * items and retries.
 */
export function createBatch<Item>(options: BatchOptions<Item>) {
  const { name, intervalMs, batchSize, write, log } = options;
  let waiting = new Map<string, Item>();
  let writing = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;
  let isFailing = false;

  async function writeAll(): Promise<void> {
    const items = [...waiting];
    waiting = new Map();
    try {
      for (; items.length > 0; items.splice(0, batchSize)) {
        await write(items.slice(0, batchSize).map(([, item]) => item));
        isFailing = false;
      }
    } catch (error) {
      if (!isFailing)
        log.warn(
          { batch: name, reason: (error as Error).message },
          "batch not written, will retry",
        );
      isFailing = true;
      waiting = new Map([...items, ...waiting].slice(-MAX_ITEMS)); // newer items replace older ones
      timer ??= setTimeout(flush, RETRY_MS).unref();
    }
  }

  function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    writing = writing.then(writeAll);
    return writing;
  }

  return {
    /** Adds an item, or replaces the one of the same key. */
    set(key: string, item: Item) {
      const [oldest] = waiting.keys();
      if (oldest !== undefined && waiting.size >= MAX_ITEMS) waiting.delete(oldest);
      waiting.set(key, item);
      timer ??= setTimeout(flush, intervalMs);
    },
    /**
     * Writes what waits. Resolves when it is written, or the try has failed. Call it before closing
     * what it writes to.
     */
    flush,
  };
}
