import { readFileSync } from "node:fs";
import type { SqlEntityManager } from "@mikro-orm/sql";
import { isConcurrentChange, isDeadlock, lacksPrivilege } from "./errors.ts";
import { firstRow, returnsRow } from "./statement.ts";

const EXTENSION = readFileSync(new URL("search-extension.sql", import.meta.url), "utf8");

/** SQL for the normalized form that addresses are compared in, independent of the database's locale. */
export const searchable = (text: string): string => `searchable(${text})`;

/**
 * SQL for the form that names and addresses of people are searched in. Letters match that have the
 * same upper case in some language, such as the two i of Turkish.
 */
export const folded = (text: string): string => `folded(${text})`;

/**
 * The searched text of a user `t`: address, name and the address in Punycode. Search terms contain
 * no line feed, so no match spans two parts.
 */
export const searchedText = (t = ""): string =>
  folded(`${t}email || chr(10) || ${t}name || chr(10) || ${t}canonical_email`);

/** The user search index, which schema checks look for. */
const USERS_SEARCH = "users_search_folded";

/**
 * Indexes for searches and filters of lists. Migrations read no rows, so these are created after
 * the migrations. Operators of large tables can create them in advance. Another definition gets
 * another name, so that processes of the release before still find theirs when they start.
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
  {
    name: "users_with_factor",
    table: "users",
    method: () => "(id) where mfa_secret is not null",
    needsTrigrams: false,
  },
  {
    name: "users_without_factor",
    table: "users",
    method: () => "(id) where mfa_secret is null",
    needsTrigrams: false,
  },
];

/** State of an index: `isValid` if it is complete, `isBuilding` if any process is creating it. */
type State = { exists: boolean; isValid: boolean; isBuilding: boolean };

const stateOf = async (
  em: SqlEntityManager,
  { name, table }: Pick<Index, "name" | "table">,
): Promise<State> =>
  (await firstRow<State>(
    { em },
    `select i.indexrelid is not null as exists, coalesce(i.indisvalid, false) as "isValid",
       exists (select from pg_stat_progress_create_index p where p.relid = to_regclass(:table)) as "isBuilding"
     from (select to_regclass(:name) as id) as named left join pg_index i on i.indexrelid = named.id`,
    { name, table },
  )) as State;

/** Whether the user search index exists. */
export const hasSearchIndex = async (em: SqlEntityManager): Promise<boolean> =>
  (await stateOf(em, { name: USERS_SEARCH, table: "users" })).isValid;

/**
 * Creates missing extensions and search indexes, after the migrations: the extension may have been
 * installed since. Without the privilege to do so, startup logs a warning.
 * @param concurrently whether others can write in the meantime; not possible in a transaction
 */
export async function completeSearch(em: SqlEntityManager, concurrently: boolean): Promise<void> {
  if (!(await returnsRow({ em }, "select where to_regprocedure('folded(text)') is not null")))
    return; // the schema is older than these indexes
  await em.execute(EXTENSION);
  const extension = await firstRow<{ schema: string }>(
    { em },
    "select extnamespace::regnamespace::text as schema from pg_extension where extname = 'pg_trgm'",
  );
  for (const { name, table, method, needsTrigrams } of indexes) {
    if (needsTrigrams && !extension) continue;
    const definition = `${name} on ${table} ${method(extension?.schema ?? "")}`;
    await makeIndexAmongOthers(em, { name, table, definition }, concurrently).catch((error) => {
      if (!lacksPrivilege(error)) throw error;
    });
  }
}

type Index = { name: string; table: string; definition: string };

/**
 * Creates an index while other processes may be doing the same. PostgreSQL builds one index of a
 * table at a time: a second build waits for the first, which waits for all other statements, so the
 * server ends one of them because of the deadlock. If its half-made index is then dropped by two
 * processes, one of them fails.
 */
async function makeIndexAmongOthers(
  em: SqlEntityManager,
  index: Index,
  concurrently: boolean,
): Promise<void> {
  try {
    await makeIndex(em, index, concurrently);
  } catch (error) {
    if (!isDeadlock(error) && !isConcurrentChange(error)) throw error;
    await makeIndexAmongOthers(em, index, concurrently);
  }
}

/** Creates an index unless it exists or is being created. */
async function makeIndex(em: SqlEntityManager, index: Index, concurrently: boolean): Promise<void> {
  const { name, definition } = index;
  const { exists, isValid, isBuilding } = await stateOf(em, index);
  if (isBuilding || isValid) return;
  const mode = concurrently ? "concurrently" : "";
  if (exists) await em.execute(`drop index ${mode} if exists ${name}`); // its creation was interrupted
  await em.execute(`create index ${mode} if not exists ${definition}`);
}
