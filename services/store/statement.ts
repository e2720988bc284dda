import type { SqlEntityManager } from "@mikro-orm/postgresql";
import type { Clock } from "../platform/process/clock.ts";

/** What a statement runs on: the unit of work of a call, and its transaction while one is open. */
export type Db = { em: SqlEntityManager };

export type ClockedDb = Db & { clock: Clock };

/** What a prepared statement runs on: a connection of its own, outside of any transaction. */
export type HotDb = {
  /**
   * Runs a prepared statement without the ORM, outside of any transaction. Rows are the same as
   * those of `execute`.
   */
  query<Row>(statement: Statement, values: unknown[]): Promise<Row[]>;
};

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

/** A row by the names of its columns, for `jsonb_populate_record`. */
export function toColumns(row: object): Record<string, unknown> {
  const columnOf = (field: string) =>
    field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.fromEntries(Object.entries(row).map(([field, value]) => [columnOf(field), value]));
}
