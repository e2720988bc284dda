import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import type { MikroORM, Transaction } from "@mikro-orm/core";
import { Migration } from "@mikro-orm/migrations";
import type { PostgreSqlDriver, SqlEntityManager } from "@mikro-orm/postgresql";
import type { Logger } from "pino";
import { asDatabaseUrlError, isLockTimeout } from "./errors.ts";
import { hasSearchIndex } from "./search-indexes.ts";
import { oneRow } from "./statement.ts";
import { LOCKS } from "./store.ts";

const readSql = (file: string) => readFileSync(new URL(file, import.meta.url), "utf8");
const migrationFiles = readdirSync(new URL("migrations/", import.meta.url)).sort();

/** Separates the statements of a migration. Function bodies may contain blank lines. */
const BREAKPOINT = /^--> statement-breakpoint$/m;

/**
 * All migrations, oldest first, as SQL files. A database records the names of applied migrations,
 * including earlier ones that have since been merged into these.
 */
export const MIGRATIONS = migrationFiles.map((file) => {
  const migration = class extends Migration {
    override up(): void {
      for (const statement of readSql(`migrations/${file}`).split(BREAKPOINT)) {
        this.addSql(statement.trim());
      }
    }
  };
  return { name: file.replace(".sql", ""), class: migration };
});

/**
 * Finds the name of the migrations table with its schema, since the migrator would expect it in
 * `public`.
 */
const MIGRATION_TABLE = `
  select coalesce(
    (select nspname from pg_class c join pg_namespace n on n.oid = relnamespace where c.oid = to_regclass('mikro_orm_migrations')),
    current_schema()) || '.mikro_orm_migrations' as name`;

/** For migrations, and processes that wait for them: the first migrations create indexes. */
const DISABLE_TIMEOUTS =
  "select set_config(name, '0', true) from pg_settings where name ~ '^(statement|lock|.*transaction.*)_timeout$'";
/**
 * Maximum time that a migration waits for a table lock, since all later statements on the table
 * queue behind it.
 */
const LIMIT_LOCKS = "set local lock_timeout = '100ms'";
/** Delay between two attempts, in ms, in which those statements can run. */
const RETRY_MS = 1_000;

/**
 * Migrates in a single transaction, whose end releases the lock, even behind a pooler. If another
 * transaction uses a table, rolls back and retries until that transaction has ended.
 */
export async function migrateUnderLock(
  orm: MikroORM<PostgreSqlDriver>,
  log: Logger,
): Promise<void> {
  const migrate = async (em: SqlEntityManager) => {
    await em.execute(DISABLE_TIMEOUTS);
    await em.execute("select pg_advisory_xact_lock(:migrate)", LOCKS);
    await em.execute(LIMIT_LOCKS);
    const { name } = await oneRow<{ name: string | null }>({ em }, MIGRATION_TABLE);
    if (name) orm.config.set("migrations", { ...orm.config.get("migrations"), tableName: name });
    await orm.migrator.up({ transaction: em.getTransactionContext() as Transaction });
    return true;
  };
  const retry = async (error: unknown) => {
    if (!isLockTimeout(error)) throw error;
    log.warn("migration is waiting for a table used by a long transaction");
    await wait(RETRY_MS);
  };
  while (!(await orm.em.fork().transactional(migrate).catch(retry)));
}

const NO_SEARCH_INDEX =
  "user search has no index: it is being created, the extension pg_trgm is missing, or this role may not create them. Create the extension, then run npm run migrate";

/**
 * Compares the database schema with this version's. A newer schema is accepted with a warning, for
 * rolling updates; so is a schema without the search index.
 * @throws Error for operators if the schema is older
 */
export async function checkSchema(em: SqlEntityManager, log: Logger): Promise<void> {
  const own = MIGRATIONS.map(({ name }) => name);
  const { isMigrated } = await oneRow<{ isMigrated: boolean }>(
    { em },
    `select to_regclass('mikro_orm_migrations') is not null as "isMigrated"`,
  );
  const rows = isMigrated
    ? await em
        .execute<{ name: string }[]>("select name from mikro_orm_migrations")
        .catch(asDatabaseUrlError)
    : [];
  const done = new Set(rows.map(({ name }) => name));
  const ahead = [...done].filter((name) => name > (own.at(-1) ?? ""));
  if (ahead.length > 0)
    log.warn({ migrations: ahead }, "the database schema is newer than this process");
  const missing = own.filter((name) => !done.has(name));
  if (missing.length > 0) {
    const problem = `The database lacks ${missing.length} of ${own.length} migrations`;
    throw new Error(
      `${problem}. Run npm run migrate with this version first, or leave MIGRATE on.`,
    );
  }
  if (!(await hasSearchIndex(em))) log.warn(NO_SEARCH_INDEX);
}

/**
 * Grants a PostgreSQL role the privileges that the service needs. The role can read and append to
 * the audit log, but not change or delete events. Run it as the owner of the tables, after every
 * migration.
 * @throws Error if the name would need quoting, or if the role may create objects in the schema: it
 * could then make the owner run its functions (CVE-2018-1058)
 */
export async function grantServiceRole(em: SqlEntityManager, role: string): Promise<void> {
  if (!/^[a-z_][a-z0-9_]{0,62}$/.test(role))
    throw new Error("The role must be a plain lower-case name.");
  await em.transactional(async () => {
    type Tables = { schema: string; owner: string; open: boolean; audit: string };
    const { schema, owner, open, audit } = await oneRow<Tables>(
      { em },
      `select c.relnamespace::regnamespace::text as schema, c.relowner::regrole::text as owner,
         has_schema_privilege(:role, c.relnamespace, 'create') as open,
         (select string_agg(a.oid::regclass::text, ', ') from pg_class a where a.relnamespace = c.relnamespace
           and a.relname ~ '^audit_(events|seals)' and a.relkind in ('r', 'p')) as audit
       from pg_class c where c.oid = 'users'::regclass`,
      { role },
    );
    if (open) {
      const problem = `${role} may create objects in the schema ${schema}, which was the default before PostgreSQL 15`;
      const remedy = `grant create on schema ${schema} to ${owner}; revoke create on schema ${schema} from public`;
      throw new Error(`${problem}. First run, as the schema's owner: ${remedy}`);
    }
    await em.execute(`grant usage on schema ${schema} to ${role}`);
    await em.execute(
      `grant select, insert, update, delete on all tables in schema ${schema} to ${role}`,
    );
    await em.execute(`grant execute on function searchable(text), folded(text) to ${role}`);
    await em.execute(`revoke all on ${audit} from ${role}`);
    await em.execute(`grant select, insert on audit_events, audit_seals to ${role}`);
  });
}
