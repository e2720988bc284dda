import type { SqlEntityManager } from "@mikro-orm/postgresql";
import {
  and,
  countMatches,
  EXACT_COUNT_LIMIT,
  encodeCursor,
  estimateMatches,
  type ListQuery,
  type Page,
  type PagePosition,
  type PageRequest,
  parsePosition,
  readRows,
  type Total,
  toPage,
} from "./page.ts";

/**
 * Measured costs of finding one match by its index, as numbers of rows that a scan in the order of ids reads in the
 * same time: the id alone, and with its table row.
 */
const INDEX_ROW_COST = 1 / 5;
const TABLE_ROW_COST = 8;
/** A scan in order reads this many times the rows that evenly distributed matches would need. */
const SCAN_MARGIN = 4;
/** Most rows that one request scans without an index. */
const MAX_SCANNED_ROWS = 20_000;

/**
 * Reads one page of the rows that match conditions whose index does not keep the order of ids, such as a trigram search.
 * There are two plans. Frequent matches are found fastest by a scan in the order of ids that stops at a full page; rare
 * ones by their index, sorted afterwards. PostgreSQL's planner assumes evenly distributed matches and picks the wrong
 * plan for common search terms (seconds instead of milliseconds at ten million users), so this module chooses:
 * 1. Count up to 10,000 matches by the cheaper plan. With the index this finds all ids, and the page is known already.
 * 2. Otherwise scan in order, but no more rows than the index would cost, times a margin for uneven distribution.
 * 3. If that does not fill the page, collect all matches by the index.
 */
export async function readFilteredPage<Row extends { id: string }>(
  em: SqlEntityManager,
  query: ListQuery,
  request: PageRequest,
): Promise<Page<Row>> {
  const position = parsePosition(request);
  const size = await estimateTableSize(em, query);
  const { total, ids } = position.total
    ? { total: position.total }
    : await estimateMatchesAndIds(em, query, position, size);
  const found =
    ids ?? (await scanInOrder(em, query, position, size, total)) ?? (await collectByIndex(em, query, position));
  const rows = await em.execute<Row[]>(
    `select ${query.columns} from ${query.from} t ${query.joins ?? ""} where t.id = any(?::uuid[]) order by t.id desc`,
    [`{${found.slice(0, position.limit)}}`],
  );
  const page = found.map((id) => ({ id }));
  return { ...toPage(page, position.limit, total), items: rows }; // a row that is gone by now ends no list
}

/**
 * Reads one page of the rows that match conditions without an index. A page by cursor may be short: its cursor continues
 * where the scan stopped. A page by number scans as far as necessary.
 */
export async function readPartialPage<Row extends { id: string }>(
  em: SqlEntityManager,
  query: ListQuery,
  request: PageRequest,
): Promise<Page<Row>> {
  const position = parsePosition(request);
  const after = and([position.after]);
  const [last] = await em.execute<{ id: string }[]>(
    `select t.id from ${query.from} t where ${after.sql} order by t.id desc limit 1 offset ${MAX_SCANNED_ROWS - 1}`,
    [...after.values],
  );
  const isInRange = last && request.page === undefined ? { sql: "t.id >= ?", values: [last.id] } : undefined;
  const rows = await readRows<Row>(em, { ...query, where: [isInRange, ...query.where] }, position);
  const total = position.total ?? (await (last ? estimateMatches : countMatches)(em, query));
  if (!last || !isInRange || rows.length > position.limit) return toPage(rows, position.limit, total);
  return { items: rows, ...total, nextCursor: encodeCursor(last.id, total) };
}

/** The planner's estimate of the table's size. */
async function estimateTableSize(em: SqlEntityManager, { from }: ListQuery): Promise<number> {
  const [table] = await em.execute<{ rows: number }[]>(
    "select greatest(reltuples, 0)::float8 as rows from pg_class where oid = ?::regclass",
    [from],
  );
  return table?.rows ?? 0;
}

/** Counts the matches. Returns the page's ids too if counting has found them. */
async function estimateMatchesAndIds(
  em: SqlEntityManager,
  query: ListQuery,
  { limit, offset }: PagePosition,
  size: number,
): Promise<{ total: Total; ids?: string[] }> {
  const { from, where } = query;
  const estimate = await estimateMatches(em, query);
  const inOrder = (EXACT_COUNT_LIMIT * size) / estimate.total <= INDEX_ROW_COST * estimate.total;
  const matching = and(where);
  const count = () =>
    em.execute<{ n: number; ids: string[] }[]>(
      `with found as materialized (
         select t.id from ${from} t where ${matching.sql} ${inOrder ? "order by t.id desc" : ""} limit ${EXACT_COUNT_LIMIT + 1})
       select (select count(*)::int from found) as n, array(select id from found order by id desc limit ? offset ?) as ids`,
      [...matching.values, limit + 1, offset],
    );
  const [{ n, ids } = { n: 0, ids: [] }] = await (inOrder ? count() : usingIndex(em, count));
  const total = n > EXACT_COUNT_LIMIT ? estimate : { total: n };
  return inOrder || n <= EXACT_COUNT_LIMIT ? { total, ids } : { total };
}

/** Runs a query by the index of its conditions: in this transaction the planner can't choose a scan in order. */
function usingIndex<T>(em: SqlEntityManager, count: () => Promise<T>): Promise<T> {
  return em.transactional(async () => {
    await em.execute("select set_config('enable_indexscan', 'off', true), set_config('enable_seqscan', 'off', true)");
    return count();
  });
}

/** Scans the rows in order. @returns undefined if the index is cheaper, or the page was not filled */
async function scanInOrder(
  em: SqlEntityManager,
  { from, where }: ListQuery,
  position: PagePosition,
  size: number,
  { total }: Total,
): Promise<string[] | undefined> {
  const rowsNeeded = ((position.offset + position.limit + 1) * size) / total;
  if (!(rowsNeeded <= TABLE_ROW_COST * total)) return undefined; // also if it is NaN: no rows, no matches
  const [after, matching] = [and([position.after]), and(where)];
  const rows = await em.execute<{ id: string }[]>(
    `select t.id from (select t.* from ${from} t where ${after.sql} order by t.id desc limit ?) t
     where ${matching.sql} order by t.id desc limit ? offset ?`,
    [...after.values, Math.ceil(rowsNeeded * SCAN_MARGIN), ...matching.values, position.limit + 1, position.offset],
  );
  return rows.length > position.limit ? rows.map(({ id }) => id) : undefined;
}

/** Finds all matches after the cursor by the index. */
async function collectByIndex(
  em: SqlEntityManager,
  { from, where }: ListQuery,
  position: PagePosition,
): Promise<string[]> {
  const matching = and([...where, position.after]);
  const rows = await usingIndex(em, () =>
    em.execute<{ id: string }[]>(
      `with found as materialized (select t.id from ${from} t where ${matching.sql})
       select id from found order by id desc limit ? offset ?`,
      [...matching.values, position.limit + 1, position.offset],
    ),
  );
  return rows.map(({ id }) => id);
}
