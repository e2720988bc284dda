import type { SqlEntityManager } from "@mikro-orm/postgresql";
import type { Logger } from "pino";
import { asDatabaseUrlError } from "./errors.ts";
import { MIGRATIONS } from "./migrations.ts";

/** Finds the name of the migrations table, with its schema: the migrator would expect it in `public`. */
export const MIGRATION_TABLE = `
  select nspname || '.mikro_orm_migrations' as name from pg_namespace
  where nspname = coalesce(
    (select n.nspname from pg_namespace n join pg_class c on c.relnamespace = n.oid where c.oid = to_regclass('mikro_orm_migrations')),
    current_schema())`;

const NO_SEARCH_INDEX =
  "user search has no index: the extension pg_trgm is missing, or this role may not create it. Create it, then run npm run migrate";

/**
 * Compares the database's schema with this version's. A newer schema is accepted with a warning, for rolling updates; so
 * is one without the search index.
 * @throws Error for operators, if the schema is older
 */
export async function checkSchema(em: SqlEntityManager, log: Logger): Promise<void> {
  const own = MIGRATIONS.map(({ name }) => name);
  const [table] = await em.execute<{ there: boolean }[]>(
    "select to_regclass('mikro_orm_migrations') is not null as there",
  );
  const rows = table?.there
    ? await em.execute<{ name: string }[]>("select name from mikro_orm_migrations").catch(asDatabaseUrlError)
    : [];
  const done = new Set(rows.map(({ name }) => name));
  const ahead = [...done].filter((name) => !own.includes(name));
  if (ahead.length > 0) log.warn({ migrations: ahead }, "the database schema is newer than this process");
  const missing = own.filter((name) => !done.has(name));
  if (missing.length > 0) {
    const problem = `The database lacks ${missing.length} of ${own.length} migrations`;
    throw new Error(`${problem}. Run npm run migrate with this version first, or leave MIGRATE on.`);
  }
  const [search] = await em.execute<{ there: boolean }[]>("select to_regclass('users_search') is not null as there");
  if (!search?.there) log.warn(NO_SEARCH_INDEX);
}
