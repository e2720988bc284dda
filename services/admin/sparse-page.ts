import type { SqlEntityManager } from "@mikro-orm/postgresql";
import {
  all,
  countMatches,
  cursorBelow,
  estimateMatches,
  type Page,
  type PageRequest,
  type Place,
  pageOf,
  placeOf,
  readRows,
  type Source,
} from "./page.ts";

/** Rows that are looked through in order before the index is asked: what matches often is found among them. */
const LOOK_THROUGH = 5_000;
/** The same where no index helps: as far as one request goes. */
const LOOK_THROUGH_AT_MOST = 20_000;

/**
 * Reads one page of rows that match here and there, by a condition whose index does not keep the order of the ids.
 * A frequent match is found by reading the newest rows in order, a rare one by its index; the planner, left alone,
 * mistakes one for the other. Where there is no index, a page may be short, and its cursor goes on where it stopped.
 * @throws Refusal VALIDATION_FAILED
 */
export async function readSparsePage<Row extends { id: string }>(
  em: SqlEntityManager,
  source: Source,
  request: PageRequest,
  { indexed }: { indexed: boolean },
): Promise<Page<Row>> {
  const place = placeOf(request);
  const near = await lookThrough<Row>(em, source, place, indexed ? LOOK_THROUGH : LOOK_THROUGH_AT_MOST);
  const enough = near.end === undefined || near.rows.length > place.limit;
  if (!indexed && near.end !== undefined && place.offset === 0) {
    const total = place.total ?? (await estimateMatches(em, source.from, source.where));
    if (enough) return pageOf(near.rows, place.limit, total);
    return { items: near.rows, ...total, nextCursor: cursorBelow(near.end, total) };
  }
  const [rows, total] = await Promise.all([
    enough ? near.rows : collect<Row>(em, source, place),
    place.total ?? countMatches(em, source.from, source.where),
  ]);
  return pageOf(rows, place.limit, total);
}

/** Reads a page from so many rows in order. @returns also the id of the last one looked at, unless all were. */
async function lookThrough<Row>(em: SqlEntityManager, source: Source, place: Place, most: number) {
  const below = all([place.below === undefined ? undefined : { sql: "t.id < ?", values: [place.below] }]);
  const [last] = await em.execute<{ id: string }[]>(
    `select t.id from ${source.from} t where ${below.sql} order by t.id desc limit 1 offset ?`,
    [...below.values, most - 1],
  );
  const nearest = last && { sql: "t.id >= ?", values: [last.id] };
  const rows = await readRows<Row>(em, { ...source, where: [nearest, ...source.where] }, place);
  return { rows, end: last?.id };
}

/** Collects the ids of every match before any order or limit, so that the planner has no reason to walk the table. */
async function collect<Row>(em: SqlEntityManager, source: Source, { limit, below, offset }: Place): Promise<Row[]> {
  const { columns, from, joins = "", where } = source;
  const found = all([...where, below === undefined ? undefined : { sql: "t.id < ?", values: [below] }]);
  return em.execute<Row[]>(
    `with found as materialized (select t.id from ${from} t where ${found.sql}),
       top as materialized (select id from found order by id desc limit ? offset ?)
     select ${columns} from top join ${from} t on t.id = top.id ${joins} order by t.id desc`,
    [...found.values, limit + 1, offset],
  );
}
