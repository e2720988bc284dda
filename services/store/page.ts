import type { SqlEntityManager } from "@mikro-orm/postgresql";
import { invalid } from "../platform/errors.ts";
import { bytesOfId, ID_BYTES, idOfBytes } from "./ids.ts";

/** Rows in a page where the request does not say. */
const DEFAULT_LIMIT = 20;
/** Matches are counted up to this number, and estimated beyond. */
export const EXACT_COUNT_LIMIT = 10_000;
const CURSOR_BYTES = ID_BYTES + 5;

/** Which page of a list: the one after a cursor, or the one of a number. */
export type PageRequest = { limit?: number | undefined; cursor?: string | undefined; page?: number | undefined };

/** A piece of a WHERE clause and its values. */
export type Condition = { sql: string; values: readonly unknown[] };

/** What is listed: ids come from `from` alone, `columns` and `joins` are read for the page's rows only. */
export type ListQuery = { columns: string; from: string; joins?: string; where: (Condition | undefined)[] };

/** How many rows match: counted exactly up to 10,000. */
export type Total = { total: number; totalEstimated?: true };

/** One page. `nextCursor` is absent on the last. */
export type Page<Row> = Total & { items: Row[]; nextCursor?: string };

/** Where a page starts, and how long it is. The total is counted with a walk's first page and carried by its cursors. */
export type PagePosition = { limit: number; after: string | undefined; offset: number; total: Total | undefined };

/** Reads where a page starts. @throws ServiceError VALIDATION_FAILED */
export function parsePosition({ limit = DEFAULT_LIMIT, cursor, page }: PageRequest): PagePosition {
  if (cursor === undefined) return { limit, after: undefined, offset: ((page ?? 1) - 1) * limit, total: undefined };
  if (page !== undefined) throw invalid("page", "can't be combined with cursor");
  const bytes = Buffer.from(cursor, "base64url");
  if (bytes.length !== CURSOR_BYTES || bytes.toString("base64url") !== cursor) {
    throw invalid("cursor", "is not one that a list has answered");
  }
  const total = bytes.readUInt32BE(ID_BYTES + 1);
  return {
    limit,
    after: idOfBytes(bytes),
    offset: 0,
    total: bytes[ID_BYTES] ? { total, totalEstimated: true } : { total },
  };
}

/** The cursor that goes on below an id. */
export function encodeCursor(id: string, { total, totalEstimated }: Total): string {
  const tail = Buffer.alloc(CURSOR_BYTES - ID_BYTES);
  tail.writeUInt8(totalEstimated ? 1 : 0);
  tail.writeUInt32BE(total, 1);
  return Buffer.concat([bytesOfId(id), tail]).toString("base64url");
}

/**
 * Reads one page, newest first. Its cursor is the last id, so rows that are added meanwhile neither repeat nor hide
 * any that stood when the walk began.
 * @throws ServiceError VALIDATION_FAILED
 */
export async function readPage<Row extends { id: string }>(
  em: SqlEntityManager,
  source: ListQuery,
  request: PageRequest,
): Promise<Page<Row>> {
  const place = parsePosition(request);
  const [rows, total] = await Promise.all([
    readRows<Row>(em, source, place),
    place.total ?? countMatches(em, source.from, source.where),
  ]);
  return pageOf(rows, place.limit, total);
}

/** Makes a page of rows that were read one beyond its limit. */
export function pageOf<Row extends { id: string }>(rows: Row[], limit: number, total: Total): Page<Row> {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  return { items, ...total, ...(rows.length > limit && last && { nextCursor: encodeCursor(last.id, total) }) };
}

/**
 * Reads a page's rows and one more, which tells that there is a next page. The ids come first, from an index that knows
 * all it is asked; rows are read for the page alone.
 */
export async function readRows<Row>(
  em: SqlEntityManager,
  { columns, from, joins = "", where }: ListQuery,
  place: Pick<PagePosition, "limit" | "after" | "offset">,
): Promise<Row[]> {
  const { sql, values } = and([...where, afterCursor(place)]);
  return em.execute<Row[]>(
    `select ${columns} from (select t.id from ${from} t where ${sql} order by t.id desc limit ? offset ?) p
     join ${from} t on t.id = p.id ${joins} order by t.id desc`,
    [...values, place.limit + 1, place.offset],
  );
}

/** The condition that a row comes after the cursor. */
export function afterCursor({ after }: Pick<PagePosition, "after">): Condition | undefined {
  return whereIf(after, "t.id < ?");
}

/** Counts up to 10,000, along the index that pages are read by; beyond, the planner's estimate is told. */
export async function countMatches(em: SqlEntityManager, from: string, where: ListQuery["where"]): Promise<Total> {
  const { sql, values } = and(where);
  const [row] = await em.execute<{ n: number }[]>(
    `select count(*)::int as n from (select 1 from ${from} t where ${sql} order by t.id desc limit ${EXACT_COUNT_LIMIT + 1}) as counted`,
    values,
  );
  const total = row?.n ?? 0;
  return total > EXACT_COUNT_LIMIT ? estimateMatches(em, from, where) : { total };
}

/** The planner's estimate of how many match: for those that are known, or supposed, to be many. */
export async function estimateMatches(em: SqlEntityManager, from: string, where: ListQuery["where"]): Promise<Total> {
  const { sql, values } = and(where);
  const [row] = await em.execute<{ "QUERY PLAN": unknown }[]>(
    `explain (format json) select 1 from ${from} t where ${sql}`,
    values,
  );
  const answer = row?.["QUERY PLAN"];
  const plan = (typeof answer === "string" ? JSON.parse(answer) : answer) as [{ Plan: { "Plan Rows": number } }];
  return {
    total: Math.min(Math.max(Math.round(plan[0].Plan["Plan Rows"]), EXACT_COUNT_LIMIT + 1), 2 ** 32 - 1),
    totalEstimated: true,
  };
}

/** Conditions that all hold. */
export function and(conditions: ListQuery["where"]): Condition {
  const given = conditions.filter((condition) => condition !== undefined);
  return {
    sql: given.map(({ sql }) => `(${sql})`).join(" and ") || "true",
    values: given.flatMap(({ values }) => values),
  };
}

/** A condition where its value is given. */
export function whereIf<T>(
  value: T | undefined,
  sql: string,
  values: readonly unknown[] = [value],
): Condition | undefined {
  return value === undefined ? undefined : { sql, values };
}
