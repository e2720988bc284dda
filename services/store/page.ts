import type { SqlEntityManager } from "@mikro-orm/postgresql";
import { bytesOfId, ID_BYTES, idOfBytes } from "./store.ts";

const DEFAULT_LIMIT = 20;
/** Matches are counted up to this number and estimated beyond it. */
export const EXACT_COUNT_LIMIT = 10_000;
const CURSOR_BYTES = ID_BYTES + 5;

/** Which page of a list: the one after a cursor, or the one with a number. */
export type PageRequest = { limit?: number | undefined; cursor?: string | undefined; page?: number | undefined };

/** A piece of a WHERE clause and its values. */
export type Condition = { sql: string; values: readonly unknown[] };

/** What is listed. Conditions use table `from` alone, as `t`; `columns` and `joins` are read for the page's rows only. */
export type ListQuery = { columns: string; from: string; joins?: string; where: (Condition | undefined)[] };

/** Number of matching rows: exact up to 10,000. */
export type Total = { total: number; totalEstimated?: true };

/** One page. `nextCursor` is absent on the last. */
export type Page<Row> = Total & { items: Row[]; nextCursor?: string };

/** Where a page starts, and its length. The total is counted for the first page and carried by the cursors. */
export type PagePosition = { limit: number; after?: Condition; offset: number; total?: Total };

/** Parses the position of a page. The rule `list_cursor` of the proto allows every text of `CURSOR_BYTES`. */
export function parsePosition({ limit = DEFAULT_LIMIT, cursor, page = 1 }: PageRequest): PagePosition {
  if (cursor === undefined) return { limit, offset: (page - 1) * limit };
  const bytes = Buffer.from(cursor, "base64url");
  const total = bytes.readUInt32BE(ID_BYTES + 1);
  return {
    limit,
    after: { sql: "t.id < ?", values: [idOfBytes(bytes)] },
    offset: 0,
    total: bytes[ID_BYTES] ? { total, totalEstimated: true } : { total },
  };
}

/** The cursor of the page that follows an id. */
export function encodeCursor(id: string, { total, totalEstimated }: Total): string {
  const tail = Buffer.alloc(CURSOR_BYTES - ID_BYTES);
  tail.writeUInt8(totalEstimated ? 1 : 0);
  tail.writeUInt32BE(total, 1);
  return Buffer.concat([bytesOfId(id), tail]).toString("base64url");
}

/**
 * Reads one page, newest first. Its cursor is the last id, so rows that are added meanwhile neither repeat nor hide
 * others.
 */
export async function readPage<Row extends { id: string }>(
  em: SqlEntityManager,
  query: ListQuery,
  request: PageRequest,
): Promise<Page<Row>> {
  const position = parsePosition(request);
  const [rows, total] = await Promise.all([
    readRows<Row>(em, query, position),
    position.total ?? countMatches(em, query),
  ]);
  return toPage(rows, position.limit, total);
}

/** Makes a page of its rows and, if there is a next page, one more. */
export function toPage<Row extends { id: string }>(rows: Row[], limit: number, total: Total): Page<Row> {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  return { items, ...total, ...(rows.length > limit && last && { nextCursor: encodeCursor(last.id, total) }) };
}

/**
 * Reads a page's rows and one more, which shows that there is a next page. The inner query finds the ids by an
 * index-only scan; whole rows are read for the page alone.
 */
export async function readRows<Row>(
  em: SqlEntityManager,
  { columns, from, joins = "", where }: ListQuery,
  { limit, after, offset }: PagePosition,
): Promise<Row[]> {
  const { sql, values } = and([...where, after]);
  return em.execute<Row[]>(
    `select ${columns} from (select t.id from ${from} t where ${sql} order by t.id desc limit ? offset ?) p
     join ${from} t on t.id = p.id ${joins} order by t.id desc`,
    [...values, limit + 1, offset],
  );
}

/** Counts up to 10,000 matches, in the order of pages. Returns the planner's estimate if there are more. */
export async function countMatches(em: SqlEntityManager, query: ListQuery): Promise<Total> {
  const { sql, values } = and(query.where);
  const [row] = await em.execute<{ n: number }[]>(
    `select count(*)::int as n from (select 1 from ${query.from} t where ${sql} order by t.id desc limit ${EXACT_COUNT_LIMIT + 1}) as counted`,
    values,
  );
  const total = row?.n ?? 0;
  return total > EXACT_COUNT_LIMIT ? estimateMatches(em, query) : { total };
}

/** The planner's estimate of the number of matches, for conditions with more than 10,000 of them. */
export async function estimateMatches(em: SqlEntityManager, { from, where }: ListQuery): Promise<Total> {
  const { sql, values } = and(where);
  const [row] = await em.execute<{ "QUERY PLAN": unknown }[]>(
    `explain (format json) select 1 from ${from} t where ${sql}`,
    values,
  );
  const output = row?.["QUERY PLAN"];
  const plan = (typeof output === "string" ? JSON.parse(output) : output) as [{ Plan: { "Plan Rows": number } }];
  return {
    total: Math.min(Math.max(Math.round(plan[0].Plan["Plan Rows"]), EXACT_COUNT_LIMIT + 1), 2 ** 32 - 1),
    totalEstimated: true,
  };
}

/** The conjunction of conditions. */
export function and(conditions: ListQuery["where"]): Condition {
  const defined = conditions.filter((condition) => condition !== undefined);
  return {
    sql: defined.map(({ sql }) => `(${sql})`).join(" and ") || "true",
    values: defined.flatMap(({ values }) => values),
  };
}

/** A condition that applies if its value is given. */
export function whereIf(value: unknown, sql: string, values: readonly unknown[] = [value]): Condition | undefined {
  return value === undefined ? undefined : { sql, values };
}
