import type { SqlEntityManager } from "@mikro-orm/postgresql";
import {
  afterCursor,
  and,
  countMatches,
  EXACT_COUNT_LIMIT,
  encodeCursor,
  estimateMatches,
  type ListQuery,
  type Page,
  type PagePosition,
  type PageRequest,
  pageOf,
  parsePosition,
  readRows,
  type Total,
} from "./page.ts";

/** Measured costs of one match, in rows scanned in the order of ids: listed from the index, and read through it. */
const INDEX_ROW_COST = 1 / 5;
const TABLE_ROW_COST = 8;
/** A scan in order goes this many times as far as evenly spread matches would need. */
const SCAN_MARGIN = 4;
/** Rows that one request scans where no index helps. */
const MAX_SCANNED_ROWS = 20_000;

/**
 * Reads one page of rows that match here and there, by conditions whose index does not keep the order of the ids.
 * Many matches are found fastest by scanning the rows in order, few by their index. The planner, left alone, mistakes one
 * case for the other, so the choice is made here.
 * @throws ServiceError VALIDATION_FAILED
 */
export async function readFilteredPage<Row extends { id: string }>(
  em: SqlEntityManager,
  source: ListQuery,
  request: PageRequest,
): Promise<Page<Row>> {
  const place = parsePosition(request);
  const size = await estimateTableSize(em, source);
  const { total, ids } = place.total ? { total: place.total } : await estimateMatchesAndIds(em, source, place, size);
  const found = ids ?? (await scanInOrder(em, source, place, size, total)) ?? (await scanByIndex(em, source, place));
  return pageOf(await fetchRows<Row>(em, source, found), place.limit, total);
}

/**
 * Reads one page of rows that no index finds. By cursor it may be short, and its cursor goes on where it stopped; by
 * number it looks on for as long as it takes.
 * @throws ServiceError VALIDATION_FAILED
 */
export async function readPartialPage<Row extends { id: string }>(
  em: SqlEntityManager,
  source: ListQuery,
  request: PageRequest,
): Promise<Page<Row>> {
  const place = parsePosition(request);
  const below = and([afterCursor(place)]);
  const [last] = await em.execute<{ id: string }[]>(
    `select t.id from ${source.from} t where ${below.sql} order by t.id desc limit 1 offset ${MAX_SCANNED_ROWS - 1}`,
    [...below.values],
  );
  const near = last && place.offset === 0 ? { sql: "t.id >= ?", values: [last.id] } : undefined;
  const rows = await readRows<Row>(em, { ...source, where: [near, ...source.where] }, place);
  const total = place.total ?? (await (last ? estimateMatches : countMatches)(em, source.from, source.where));
  if (!last || !near || rows.length > place.limit) return pageOf(rows, place.limit, total);
  return { items: rows, ...total, nextCursor: encodeCursor(last.id, total) };
}

/** The planner's estimate of how many rows there are. */
async function estimateTableSize(em: SqlEntityManager, { from }: ListQuery): Promise<number> {
  const [table] = await em.execute<{ rows: number }[]>(
    "select greatest(reltuples, 0)::float8 as rows from pg_class where oid = ?::regclass",
    [from],
  );
  return table?.rows ?? 0;
}

/** Counts the matches, and tells the page's ids where that has found them. */
async function estimateMatchesAndIds(
  em: SqlEntityManager,
  { from, where }: ListQuery,
  { limit, offset }: PagePosition,
  size: number,
): Promise<{ total: Total; ids?: string[] }> {
  const estimate = await estimateMatches(em, from, where);
  const inOrder = (EXACT_COUNT_LIMIT * size) / estimate.total <= INDEX_ROW_COST * estimate.total;
  const matching = and(where);
  const ask = () =>
    em.execute<{ n: number; ids: string[] }[]>(
      `with found as materialized (
         select t.id from ${from} t where ${matching.sql} ${inOrder ? "order by t.id desc" : ""} limit ${EXACT_COUNT_LIMIT + 1})
       select (select count(*)::int from found) as n, array(select id from found order by id desc limit ? offset ?) as ids`,
      [...matching.values, limit + 1, offset],
    );
  const [{ n, ids } = { n: 0, ids: [] }] = await (inOrder ? ask() : byIndex(em, ask));
  const total = n > EXACT_COUNT_LIMIT ? estimate : { total: n };
  return inOrder || n <= EXACT_COUNT_LIMIT ? { total, ids } : { total };
}

/** Runs a query by its index: in this transaction the planner may not bet on a scan that soon meets enough matches. */
function byIndex<T>(em: SqlEntityManager, ask: () => Promise<T>): Promise<T> {
  return em.transactional(async () => {
    await em.execute("select set_config('enable_indexscan', 'off', true), set_config('enable_seqscan', 'off', true)");
    return ask();
  });
}

/** Looks through the rows in order. @returns undefined where the index is cheaper, or the page is not found in time */
async function scanInOrder(
  em: SqlEntityManager,
  { from, where }: ListQuery,
  place: PagePosition,
  size: number,
  { total }: Total,
): Promise<string[] | undefined> {
  const distance = ((place.offset + place.limit + 1) * size) / total;
  if (!(distance <= TABLE_ROW_COST * total)) return undefined; // also when it is NaN: no rows, no matches
  const [below, matching] = [and([afterCursor(place)]), and(where)];
  const rows = await em.execute<{ id: string }[]>(
    `select t.id from (select t.* from ${from} t where ${below.sql} order by t.id desc limit ?) t
     where ${matching.sql} order by t.id desc limit ? offset ?`,
    [...below.values, Math.ceil(distance * SCAN_MARGIN), ...matching.values, place.limit + 1, place.offset],
  );
  return rows.length > place.limit ? rows.map(({ id }) => id) : undefined;
}

/** Collects every match below the cursor. */
async function scanByIndex(em: SqlEntityManager, { from, where }: ListQuery, place: PagePosition): Promise<string[]> {
  const matching = and([...where, afterCursor(place)]);
  const rows = await byIndex(em, () =>
    em.execute<{ id: string }[]>(
      `with found as materialized (select t.id from ${from} t where ${matching.sql})
       select id from found order by id desc limit ? offset ?`,
      [...matching.values, place.limit + 1, place.offset],
    ),
  );
  return rows.map(({ id }) => id);
}

async function fetchRows<Row>(
  em: SqlEntityManager,
  { columns, from, joins = "" }: ListQuery,
  ids: string[],
): Promise<Row[]> {
  return em.execute<Row[]>(`select ${columns} from ${from} t ${joins} where t.id = any(?::uuid[]) order by t.id desc`, [
    `{${ids}}`,
  ]);
}
