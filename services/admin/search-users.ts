import type { SqlEntityManager } from "@mikro-orm/postgresql";
import {
  all,
  type Condition,
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
  type Total,
} from "./page.ts";

/** Rows that are looked through in order before the index is asked: what matches often is found among them. */
const LOOK_THROUGH = 5_000;
/** The same where no index helps, since trigrams need three characters: as far as one request goes. */
const LOOK_THROUGH_AT_MOST = 50_000;
const TRIGRAM = 3;

/** As the index `users_search` has it; an address holds no line feed, so nothing matches across. */
const SEARCHED = "(lower(t.email) || chr(10) || lower(t.name))";

/**
 * Reads one page of the users whose address or name contains a text, in any case. A frequent text is found by reading
 * the newest users in order, a rare one by its trigrams; the planner, left alone, mistakes one for the other. A page
 * for one or two characters, which have no trigram, may be short, and its cursor goes on where it stopped looking.
 * @throws Refusal VALIDATION_FAILED
 */
export async function searchUsers<Row extends { id: string }>(
  em: SqlEntityManager,
  source: Source,
  search: string,
  request: PageRequest,
): Promise<Page<Row>> {
  const place = placeOf(request);
  const matching = { sql: `${SEARCHED} like '%' || lower(?) || '%'`, values: [search.replace(/[\\%_]/g, "\\$&")] };
  const where = [...source.where, matching];
  const indexed = [...search].length >= TRIGRAM;
  const near = await lookThrough<Row>(em, { ...source, where }, place, indexed ? LOOK_THROUGH : LOOK_THROUGH_AT_MOST);
  if (indexed || near.end === undefined || place.offset > 0) {
    const enough = near.end === undefined || near.rows.length > place.limit;
    const [rows, total] = await Promise.all([
      enough ? near.rows : readByIndex<Row>(em, { ...source, where }, place),
      place.total ?? countMatches(em, source.from, where),
    ]);
    return pageOf(rows, place.limit, total);
  }
  const total = place.total ?? (await estimateMatches(em, source.from, where));
  return near.rows.length > place.limit ? pageOf(near.rows, place.limit, total) : shortPage(near.rows, near.end, total);
}

/** Reads a page from so many rows in order. @returns also the id of the last one looked at, unless all were. */
async function lookThrough<Row>(em: SqlEntityManager, source: Source, place: Place, most: number) {
  const below: Condition = place.below ? { sql: "n.id < ?", values: [place.below] } : all([]);
  const [last] = await em.execute<{ id: string }[]>(
    `select n.id from ${source.from} n where ${below.sql} order by n.id desc limit 1 offset ?`,
    [...below.values, most - 1],
  );
  const nearest = last && { sql: "t.id >= ?", values: [last.id] };
  const rows = await readRows<Row>(em, { ...source, where: [nearest, ...source.where] }, place);
  return { rows, end: last?.id };
}

/** Collects every match before it is put in order: the planner has no reason to walk the table in order instead. */
async function readByIndex<Row>(em: SqlEntityManager, source: Source, place: Place): Promise<Row[]> {
  const found = all(source.where);
  const matches: Condition = {
    sql: `t.id in (with found as materialized (select t.id from ${source.from} t where ${found.sql}) select id from found)`,
    values: found.values,
  };
  return readRows<Row>(em, { ...source, where: [matches] }, place);
}

function shortPage<Row extends { id: string }>(items: Row[], end: string, total: Total): Page<Row> {
  return { items, ...total, nextCursor: cursorBelow(end, total) };
}
