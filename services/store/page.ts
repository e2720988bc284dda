import { MAX as MAX_ID } from "uuid";
import { invalid } from "../platform/rpc/errors.ts";
import { bytesOfId, ID_BYTES, idOfBytes } from "../platform/rpc/id-bytes.ts";
import { type Db, oneRow, returnsRow, type Values } from "./statement.ts";

const DEFAULT_LIMIT = 20;
/** Matches are counted up to this number; beyond it the total is estimated. */
export const EXACT_COUNT_LIMIT = 10_000;
const CURSOR_BYTES = ID_BYTES + 5;
/** Additional bytes of cursors in an order by time. */
const TIME_BYTES = 8;
/** The time of a row without a time, in such a cursor. */
const NEVER = -(2n ** 63n);

/** A page of a list, after a cursor or by its number. */
export type PageRequest = {
  limit?: number | undefined;
  cursor?: string | undefined;
  page?: number | undefined;
};

/**
 * A list to read. `where` only refers to table `from`, as `t`; `columns` and `joins` are evaluated
 * only for the rows of the page.
 */
export type ListQuery = {
  columns: string;
  from: string;
  joins?: string;
  where: string;
  values: Values;
};

/** Number of matching rows: exact up to 10,000. */
export type Total = { total: number; totalEstimated?: true };

/** One page. `nextCursor` is absent on the last page. */
export type Page<Row> = Total & { items: Row[]; nextCursor?: string };

/**
 * Start and length of a page. The total is counted for the first page and carried in the
 * cursors.
 */
export type PagePosition = { limit: number; offset: number; after: string; total?: Total };

/**
 * Parses the position of a page. The `list_cursor` rule of the proto admits any text of
 * `CURSOR_BYTES`.
 */
export function parsePosition({
  limit = DEFAULT_LIMIT,
  cursor,
  page = 1,
}: PageRequest): PagePosition {
  if (cursor === undefined) return { limit, offset: (page - 1) * limit, after: MAX_ID };
  const bytes = Buffer.from(cursor, "base64url");
  const total = bytes.readUInt32BE(ID_BYTES + 1);
  return {
    limit,
    offset: 0,
    after: idOfBytes(bytes),
    total: bytes[ID_BYTES] ? { total, totalEstimated: true } : { total },
  };
}

/** Encodes the cursor of the page after an id. */
export function encodeCursor(id: string, { total, totalEstimated }: Total): string {
  const tail = Buffer.alloc(CURSOR_BYTES - ID_BYTES);
  tail.writeUInt8(totalEstimated ? 1 : 0);
  tail.writeUInt32BE(total, 1);
  return Buffer.concat([bytesOfId(id), tail]).toString("base64url");
}

/** Encodes the cursor of the page after a row in an order by time. */
function encodeTimedCursor(id: string, time: Date | null | undefined, total: Total): string {
  const tail = Buffer.alloc(TIME_BYTES);
  tail.writeBigInt64BE(time ? BigInt(time.getTime()) : NEVER);
  return Buffer.concat([Buffer.from(encodeCursor(id, total), "base64url"), tail]).toString(
    "base64url",
  );
}

/**
 * Decodes the time in a cursor, in a form that PostgreSQL reads.
 * @returns undefined for a cursor from another order
 */
function timeOfCursor(cursor: string): string | undefined {
  const bytes = Buffer.from(cursor, "base64url");
  if (bytes.length !== CURSOR_BYTES + TIME_BYTES) return undefined;
  const time = bytes.readBigInt64BE(CURSOR_BYTES);
  if (time === NEVER) return "-infinity";
  const date = new Date(Number(time));
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}

/**
 * Reads one page, newest first. Its cursor is the last id, so that rows added in the meantime
 * neither repeat nor hide others.
 */
export async function readPage<Row extends { id: string }>(
  db: Db,
  query: ListQuery,
  request: PageRequest,
): Promise<Page<Row>> {
  const position = parsePosition(request);
  const [rows, total] = await Promise.all([
    readRows<Row>(db, query, position),
    position.total ?? countMatches(db, query),
  ]);
  return toPage(rows, position.limit, total);
}

/** Creates a page from its rows plus, if there is a next page, one more. */
export function toPage<Row extends { id: string }>(
  rows: Row[],
  limit: number,
  total: Total,
): Page<Row> {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  return {
    items,
    ...total,
    ...(rows.length > limit && last && { nextCursor: encodeCursor(last.id, total) }),
  };
}

/**
 * Reads a page's rows plus one more, which shows that there is a next page. The inner query finds
 * the ids with an index-only scan; full rows are only read for the page.
 */
export function readRows<Row>(
  { em }: Db,
  query: ListQuery,
  position: PagePosition,
): Promise<Row[]> {
  const { columns, from, joins = "", where, values } = query;
  return em.execute(
    `select ${columns} from (
       select t.id from ${from} t where ${where} and t.id < :after order by t.id desc limit :limit + 1 offset :offset) p
     join ${from} t on t.id = p.id ${joins} order by t.id desc`,
    { ...values, ...position },
  );
}

/** An order of a list by a unique, indexed column. */
export type Order = { column: "id" | "canonical_email"; descending: boolean };

/**
 * Reads one page in an order other than newest first. The cursor is the id of the last row, whose
 * column is the position.
 * @throws ServiceError VALIDATION_FAILED if the row of the cursor no longer exists
 */
export async function readOrderedPage<Row extends { id: string }>(
  db: Db,
  query: ListQuery,
  request: PageRequest,
  { column, descending }: Order,
): Promise<Page<Row>> {
  const { columns, from, joins = "", where, values } = query;
  const position = parsePosition(request);
  const isLater = `t.${column} ${descending ? "<" : ">"} (select s.${column} from ${from} s where s.id = :after)`;
  const order = `order by t.${column} ${descending ? "desc" : "asc"}`;
  const isFirst = request.cursor === undefined;
  if (!isFirst && !(await returnsRow(db, `select 1 from ${from} where id = :after`, position)))
    throw invalid(
      "cursor",
      "is no longer valid: its row has been deleted, so start again without a cursor",
    );
  const [rows, total] = await Promise.all([
    db.em.execute<Row[]>(
      `select ${columns} from (
         select t.id from ${from} t where ${where} ${isFirst ? "" : `and ${isLater}`} ${order} limit :limit + 1 offset :offset) p
       join ${from} t on t.id = p.id ${joins} ${order}`,
      { ...values, ...position },
    ),
    position.total ?? countMatches(db, query),
  ]);
  return toPage(rows, position.limit, total);
}

/** An order by a time that rows may lack. Rows without it come first in ascending order. */
export type TimeOrder<Row> = {
  /** SQL expression for the time in a row `t`; `-infinity` for rows without a time. */
  time: string;
  timeOf: (row: Row) => Date | null | undefined;
  descending: boolean;
};

/**
 * Reads one page in an order by time. The cursor contains the time, because that of the row may
 * have changed since.
 * @throws ServiceError VALIDATION_FAILED for a cursor from another order
 */
export async function readTimeOrderedPage<Row extends { id: string }>(
  db: Db,
  query: ListQuery,
  request: PageRequest,
  { time, timeOf, descending }: TimeOrder<Row>,
): Promise<Page<Row>> {
  const { columns, from, joins = "", where, values } = query;
  const position = parsePosition(request);
  const { cursor } = request;
  const after = cursor === undefined ? undefined : timeOfCursor(cursor);
  if (cursor !== undefined && after === undefined)
    throw invalid("cursor", "belongs to another sort order: start again without a cursor");
  const isLater = `(${time}, t.id) ${descending ? "<" : ">"} (:time::timestamptz, :after::uuid)`;
  const direction = descending ? "desc" : "asc";
  const order = `order by ${time} ${direction}, t.id ${direction}`;
  const [rows, total] = await Promise.all([
    db.em.execute<Row[]>(
      `select ${columns} from (
         select t.id from ${from} t where ${where} ${after ? `and ${isLater}` : ""} ${order} limit :limit + 1 offset :offset) p
       join ${from} t on t.id = p.id ${joins} ${order}`,
      { ...values, ...position, time: after },
    ),
    position.total ?? countMatches(db, query),
  ]);
  const page = toPage(rows, position.limit, total);
  const last = page.items.at(-1);
  return page.nextCursor && last
    ? { ...page, nextCursor: encodeTimedCursor(last.id, timeOf(last), total) }
    : page;
}

/**
 * Counts up to 10,000 matches, in page order. If there are more, returns the planner's
 * estimate.
 */
export async function countMatches(db: Db, query: ListQuery): Promise<Total> {
  const { total } = await oneRow<{ total: number }>(
    db,
    `select count(*)::int as total from (select 1 from ${query.from} t where ${query.where} order by t.id desc limit ${EXACT_COUNT_LIMIT + 1}) as counted`,
    query.values,
  );
  return total > EXACT_COUNT_LIMIT ? estimateMatches(db, query) : { total };
}

/**
 * The planner's estimate of the number of matches, for conditions with more than 10,000.
 */
export async function estimateMatches(db: Db, query: ListQuery): Promise<Total> {
  const rows = await estimateRows(db, query);
  return {
    total: Math.min(Math.max(rows, EXACT_COUNT_LIMIT + 1), 2 ** 32 - 1),
    totalEstimated: true,
  };
}

/** The planner's estimate of the number of rows for a condition. */
export async function estimateRows(
  db: Db,
  { from, where, values }: Omit<ListQuery, "columns">,
): Promise<number> {
  type Explained = { "QUERY PLAN": [{ Plan: { "Plan Rows": number } }] };
  const row = await oneRow<Explained>(
    db,
    `explain (format json) select 1 from ${from} t where ${where}`,
    values,
  );
  return row["QUERY PLAN"][0].Plan["Plan Rows"];
}

/** Combines the conditions for which `values` has a value of the same name. */
export function rowsWhere(
  conditions: Record<string, string>,
  values: Values,
): Pick<ListQuery, "where" | "values"> {
  const given = Object.keys(conditions).filter((name) => values[name] !== undefined);
  return { where: given.map((name) => `(${conditions[name]})`).join(" and ") || "true", values };
}
