import {
  countMatches,
  EXACT_COUNT_LIMIT,
  encodeCursor,
  estimateMatches,
  estimateRows,
  type ListQuery,
  type Page,
  type PageRequest,
  parsePosition,
  readRows,
  type Total,
  toPage,
} from "./page.ts";
import { type Db, firstRow, oneRow } from "./statement.ts";

/**
 * Measured costs of finding one match with its index, in rows that a scan in id order reads in the
 * same time: for the id alone, and for its table row too.
 */
const INDEX_ROW_COST = 1 / 5;
const TABLE_ROW_COST = 8;
/** A scan in order may read this many times the rows that evenly distributed matches would need. */
const SCAN_MARGIN = 4;
/** Maximum number of rows that one request scans without an index. */
const MAX_SCANNED_ROWS = 20_000;

/**
 * Reads one page of rows for conditions whose index is not in id order, such as a trigram search.
 * There are two plans: frequent matches are found fastest with a scan in id order that stops once
 * the page is full; rare matches, with their index, sorted afterwards. PostgreSQL's planner assumes
 * evenly distributed matches and picks the wrong plan for common search terms (seconds instead of
 * milliseconds at ten million users), so this module chooses:
 * 1. Count up to 10,000 matches with the cheaper plan. If that was the index, it has found all ids,
 *   and so the page.
 * 2. Otherwise scan in order, but no more rows than the index would cost, times a margin for uneven
 *   distribution.
 * 3. If that does not fill the page, collect all matches with the index.
 */
export async function readFilteredPage<Row extends { id: string }>(
  db: Db,
  query: ListQuery,
  request: PageRequest,
): Promise<Page<Row>> {
  const { columns, from, joins = "", where, values } = query;
  const position = parsePosition(request);
  const size = await estimateRows(db, { from, where: "true", values: {} });
  /**
   * Finds matches after the cursor: their number, and the ids for the page.
   * @param limit SQL that orders and limits the matches
   */
  const find = (limit: string, source = from) =>
    oneRow<{ n: number; ids: string[] }>(
      db,
      `with found as materialized (select t.id from ${source} t where ${where} and t.id < :after ${limit})
       select (select count(*)::int from found) as n,
         array(select id from found order by id desc limit :limit + 1 offset :offset) as ids`,
      { ...values, ...position },
    );
  /**
   * Finds them with the index of the conditions: in this transaction, the planner cannot choose a
   * scan in order.
   */
  const findByIndex = (limit = "") =>
    db.em.transactional(async () => {
      await db.em.execute(
        "select set_config('enable_indexscan', 'off', true), set_config('enable_seqscan', 'off', true)",
      );
      return find(limit);
    });
  /** Counts the matches. Also returns the ids for the page if counting has found them. */
  const count = async (): Promise<{ total: Total; ids?: string[] }> => {
    const total = await estimateMatches(db, query);
    const inOrder = (EXACT_COUNT_LIMIT * size) / total.total <= INDEX_ROW_COST * total.total;
    const limit = `limit ${EXACT_COUNT_LIMIT + 1}`;
    const { n, ids } = await (inOrder ? find(`order by t.id desc ${limit}`) : findByIndex(limit));
    if (n <= EXACT_COUNT_LIMIT) return { total: { total: n }, ids };
    return inOrder ? { total, ids } : { total };
  };
  /**
   * Scans the rows in order.
   * @returns undefined if the index is cheaper or the page was not filled
   */
  const scanInOrder = async ({ total }: Total): Promise<string[] | undefined> => {
    const end = position.offset + position.limit + 1;
    const rowsNeeded = (end * size) / total;
    if (!(rowsNeeded <= TABLE_ROW_COST * total)) return undefined; // also if NaN: no rows, no matches
    const scanned = Math.ceil(rowsNeeded * SCAN_MARGIN);
    const source = `(select * from ${from} where id < :after order by id desc limit ${scanned})`;
    const { ids } = await find(`order by t.id desc limit ${end}`, source);
    return ids.length > position.limit ? ids : undefined;
  };
  const counted = position.total ? { total: position.total } : await count();
  const ids = counted.ids ?? (await scanInOrder(counted.total)) ?? (await findByIndex()).ids;
  const items = await db.em.execute<Row[]>(
    `select ${columns} from ${from} t ${joins} where t.id = any(array[:ids]::uuid[]) order by t.id desc`,
    { ids: ids.slice(0, position.limit) },
  );
  const page = ids.map((id) => ({ id }));
  return { ...toPage(page, position.limit, counted.total), items }; // nextCursor comes from the ids, as a row may have been deleted since
}

/**
 * Reads one page of rows for conditions without an index. A page requested with a cursor may be
 * short: its own cursor continues where the scan stopped. A page requested by number scans as far
 * as needed.
 */
export async function readPartialPage<Row extends { id: string }>(
  db: Db,
  query: ListQuery,
  request: PageRequest,
): Promise<Page<Row>> {
  const position = parsePosition(request);
  const last = await firstRow<{ id: string }>(
    db,
    `select t.id from ${query.from} t where t.id < :after order by t.id desc limit 1 offset ${MAX_SCANNED_ROWS - 1}`,
    position,
  );
  const end = request.page === undefined ? last?.id : undefined;
  const where = end ? `${query.where} and t.id >= :end` : query.where;
  const rows = await readRows<Row>(
    db,
    { ...query, where, values: { ...query.values, end } },
    position,
  );
  const total = position.total ?? (await (last ? estimateMatches : countMatches)(db, query));
  const page = toPage(rows, position.limit, total);
  return end && rows.length <= position.limit
    ? { ...page, nextCursor: encodeCursor(end, total) }
    : page;
}
