import type { SqlEntityManager } from "@mikro-orm/postgresql";
import type { Logger } from "pino";
import { asDatabaseUrlError } from "./errors.ts";
import { MIGRATIONS } from "./migrations.ts";

/** Names the record of migrations, which is among the tables or will be; the migrator takes it to be in `public`. */
export const MIGRATION_TABLE = `
  select nspname || '.mikro_orm_migrations' as name from pg_namespace
  where nspname = coalesce(
    (select n.nspname from pg_namespace n join pg_class c on c.relnamespace = n.oid where c.oid = to_regclass('mikro_orm_migrations')),
    current_schema())`;

const NO_SEARCH_INDEX =
  "searching users reads all of them: PostgreSQL has no extension pg_trgm, or this role may not create it. Have it created, then run npm run migrate";

/**
 * Compares the database's schema with this version's. One that is ahead is served, as while a new version takes over
 * step by step, but told of; so is one without the index of searches.
 * @throws Error for operators, when it is behind
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
  if (ahead.length > 0) log.warn({ migrations: ahead }, "the database is of a newer version than this process");
  const missing = own.filter((name) => !done.has(name));
  if (missing.length > 0) {
    const told = `The database lacks ${missing.length} of ${own.length} migrations`;
    throw new Error(`${told}. Run npm run migrate with this version first, or leave MIGRATE on.`);
  }
  const [search] = await em.execute<{ there: boolean }[]>("select to_regclass('users_search') is not null as there");
  if (!search?.there) log.warn(NO_SEARCH_INDEX);
}
