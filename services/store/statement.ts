import type { SqlEntityManager } from "@mikro-orm/postgresql";
import type { Clock } from "../platform/process/clock.ts";

/** What a statement runs on: the unit of work of a call, with its open transaction, if any. */
export type Db = { em: SqlEntityManager };

export type ClockedDb = Db & { clock: Clock };

/** What a prepared statement runs on: its own connection, outside of any transaction. */
export type HotDb = {
  /**
   * Runs a prepared statement without the ORM, outside of any transaction. Returns the same rows as
   * `execute`.
   */
  query<Row>(statement: Statement, values: unknown[]): Promise<Row[]>;
};

/** The type `timestamptz` (PostgreSQL's `pg_type.oid`). Both engines read it as a `Date`. */
export const TIMESTAMPTZ = 1184;

export const parseTime = (text: string) => new Date(text);

/** Values of a statement by name. SQL refers to them as `:name`. */
export type Values = Record<string, unknown>;

/**
 * SQL that each connection prepares once, under its name. Parameters are numbered, as PostgreSQL
 * expects.
 */
export type Statement = { name: string; text: string };

/**
 * A statement on a hot path, as a function of its values.
 * @returns a function that resolves to its rows
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
 * Runs a statement that always returns at least one row.
 * @returns the first row
 */
export const oneRow = <Row extends object>(
  { em }: Db,
  sql: string,
  values: Values = {},
): Promise<Row> => em.execute<Row>(sql, values, "get");

/**
 * Runs a statement.
 * @returns its first row, if any
 */
export const firstRow = <Row extends object>(
  db: Db,
  sql: string,
  values?: Values,
): Promise<Row | undefined> => oneRow(db, sql, values);

/**
 * Runs a statement.
 * @returns whether it returned a row
 */
export const returnsRow = async (db: Db, sql: string, values?: Values): Promise<boolean> =>
  (await firstRow(db, sql, values)) !== undefined;

/** The start of the hour (UTC) of `created_at`. */
export const HOUR = "date_trunc('hour', created_at at time zone 'UTC')";
/** A column `hour`, such as one selected with `HOUR`, in the format of `Date.toISOString`. */
export const HOUR_TEXT = `to_char(hour, 'YYYY-MM-DD"T"HH24:00:00.000"Z"')`;

/** A row keyed by column name, for `jsonb_populate_record`. */
export function toColumns(row: object): Record<string, unknown> {
  const columnOf = (field: string) =>
    field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.fromEntries(Object.entries(row).map(([field, value]) => [columnOf(field), value]));
}
