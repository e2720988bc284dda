import { readFileSync } from "node:fs";
import type { SqlEntityManager } from "@mikro-orm/sql";
import { lacksPrivilege } from "./errors.ts";
import { firstRow, returnsRow } from "./statement.ts";

const EXTENSION = readFileSync(new URL("search-extension.sql", import.meta.url), "utf8");

/** The SQL of a text in the form in which it is searched, whatever the locale of the database. */
export const searchable = (text: string): string => `searchable(${text})`;

/**
 * What is searched of a user `t`: address, name and the address in punycode. Search terms contain no
 * line feed, so none matches across two parts.
 */
export const searchedText = (t = ""): string =>
  searchable(`${t}email || chr(10) || ${t}name || chr(10) || ${t}canonical_email`);

/** The index of user searches, which checks of the schema ask for. */
const USERS_SEARCH = "users_search";

/**
 * The indexes of searches. Migrations read no rows, so these are made after them. Operators of large
 * tables can make them before.
 */
const indexes = [
  {
    name: USERS_SEARCH,
    table: "users",
    method: (trigrams: string) =>
      `using gin ((${searchedText()}) ${trigrams}.gin_trgm_ops) with (fastupdate = off)`,
    needsTrigrams: true,
  },
  {
    name: "emails_recipient",
    table: "emails",
    method: () => `(${searchable('"to"')}, id)`,
    needsTrigrams: false,
  },
];

/** An index by its name: of this version, and complete. `isBuilding`: by any process. */
type State = { exists: boolean; isCurrent: boolean; isValid: boolean; isBuilding: boolean };

const stateOf = async (em: SqlEntityManager, name: string, table: string): Promise<State> =>
  (await firstRow<State>(
    { em },
    `select i.indexrelid is not null as exists, coalesce(i.indisvalid, false) as "isValid",
       coalesce(pg_get_indexdef(i.indexrelid) like '%searchable(%', false) as "isCurrent",
       exists (select from pg_stat_progress_create_index p where p.relid = to_regclass(:table)) as "isBuilding"
     from (select to_regclass(:name) as id) as named left join pg_index i on i.indexrelid = named.id`,
    { name, table },
  )) as State;

/** Whether user searches have their index. */
export const hasSearchIndex = async (em: SqlEntityManager): Promise<boolean> => {
  const { isCurrent, isValid } = await stateOf(em, USERS_SEARCH, "users");
  return isCurrent && isValid;
};

/**
 * Makes the extension and the indexes of searches that are missing, after the migrations: the
 * extension may have been installed since. Without rights to make them the start warns.
 * @param concurrently lets others write meanwhile; not within a transaction
 */
export async function completeSearch(em: SqlEntityManager, concurrently: boolean): Promise<void> {
  if (!(await returnsRow({ em }, "select where to_regprocedure('searchable(text)') is not null")))
    return; // the schema is older than these indexes
  await em.execute(EXTENSION);
  const extension = await firstRow<{ schema: string }>(
    { em },
    "select extnamespace::regnamespace::text as schema from pg_extension where extname = 'pg_trgm'",
  );
  for (const { name, table, method, needsTrigrams } of indexes) {
    if (needsTrigrams && !extension) continue;
    const definition = `${name} on ${table} ${method(extension?.schema ?? "")}`;
    await makeIndex(em, { name, table, definition }, concurrently).catch((error) => {
      if (!lacksPrivilege(error)) throw error;
    });
  }
}

/**
 * Makes an index, unless it is there or being made. That of an earlier version keeps serving the
 * processes of that version, under another name.
 */
async function makeIndex(
  em: SqlEntityManager,
  { name, table, definition }: { name: string; table: string; definition: string },
  concurrently: boolean,
): Promise<void> {
  const { exists, isCurrent, isValid, isBuilding } = await stateOf(em, name, table);
  if (isBuilding || (isCurrent && isValid)) return;
  const mode = concurrently ? "concurrently" : "";
  if (isCurrent)
    await em.execute(`drop index ${mode} if exists ${name}`); // its making was interrupted
  else if (exists) await em.execute(`alter index ${name} rename to ${name}_earlier`);
  await em.execute(`create index ${mode} if not exists ${definition}`);
}
