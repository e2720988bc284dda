import { setTimeout as wait } from "node:timers/promises";
import type { MikroORM, Transaction } from "@mikro-orm/core";
import type { PostgreSqlDriver, SqlEntityManager } from "@mikro-orm/postgresql";
import type { Logger } from "pino";
import { asDatabaseUrlError, isLockTimeout } from "./errors.ts";
import { Migration20261121000500_audit } from "./migrations/Migration20261121000500_audit.ts";
import { Migration20261121000800_proof, USERS_SEARCH } from "./migrations/Migration20261121000800_proof.ts";
import { Migration20261123000100_macs } from "./migrations/Migration20261123000100_macs.ts";
import { Migration20261123000200_failures } from "./migrations/Migration20261123000200_failures.ts";
import { Migration20261123000300_usage_days } from "./migrations/Migration20261123000300_usage_days.ts";
import { Migration20261123000400_reservations } from "./migrations/Migration20261123000400_reservations.ts";
import { LOCKS } from "./store.ts";

/** All migrations, oldest first. A database records those it has by class name, and earlier ones that are merged into them. */
export const MIGRATIONS = [
  Migration20261121000500_audit,
  Migration20261121000800_proof,
  Migration20261123000100_macs,
  Migration20261123000200_failures,
  Migration20261123000300_usage_days,
  Migration20261123000400_reservations,
];

/** Finds the name of the migrations table, with its schema: the migrator would expect it in `public`. */
export const MIGRATION_TABLE = `
  select nspname || '.mikro_orm_migrations' as name from pg_namespace
  where nspname = coalesce(
    (select n.nspname from pg_namespace n join pg_class c on c.relnamespace = n.oid where c.oid = to_regclass('mikro_orm_migrations')),
    current_schema())`;

/** For migrations and those that wait for them: the first ones create indexes. */
const DISABLE_TIMEOUTS =
  "select set_config(name, '0', true) from pg_settings where name ~ '^(statement|lock|.*transaction.*)_timeout$'";
/** Longest wait of a migration for a table, since all later statements on the table wait behind it. */
const LIMIT_LOCKS = "set local lock_timeout = '100ms'";
/** Time between two attempts, in ms, in which those statements go on. */
const RETRY_MS = 1_000;

/**
 * Migrates in one transaction, whose end releases the lock, also behind a pooler. Where another transaction uses a table
 * it rolls back and tries again, until that transaction has ended.
 */
export async function migrateUnderLock(orm: MikroORM<PostgreSqlDriver>, log: Logger): Promise<void> {
  const migrate = async (em: SqlEntityManager) => {
    await em.execute(DISABLE_TIMEOUTS);
    await em.execute("select pg_advisory_xact_lock(?)", [LOCKS.migrate]);
    await em.execute(LIMIT_LOCKS);
    const [record] = await em.execute<{ name: string }[]>(MIGRATION_TABLE);
    if (record) orm.config.set("migrations", { ...orm.config.get("migrations"), tableName: record.name });
    await orm.migrator.up({ transaction: em.getTransactionContext() as Transaction });
    await em.execute(USERS_SEARCH); // the extension may have been installed since
    return true;
  };
  const retry = async (error: unknown) => {
    if (!isLockTimeout(error)) throw error;
    log.warn("a migration waits for a table that a long transaction uses");
    await wait(RETRY_MS);
  };
  while (!(await orm.em.fork().transactional(migrate).catch(retry)));
}

const NO_SEARCH_INDEX =
  "user search has no index: the extension pg_trgm is missing, or this role may not create it. Create it, then run npm run migrate";

/**
 * Compares the database's schema with this version's. A newer schema is accepted with a warning, for rolling updates; so
 * is one without the search index.
 * @throws Error for operators, if the schema is older
 */
export async function checkSchema(em: SqlEntityManager, log: Logger): Promise<void> {
  const own = MIGRATIONS.map(({ name }) => name);
  const [schema] = await em.execute<{ isMigrated: boolean; hasSearch: boolean }[]>(
    `select to_regclass('mikro_orm_migrations') is not null as "isMigrated",
       to_regclass('users_search') is not null as "hasSearch"`,
  );
  const rows = schema?.isMigrated
    ? await em.execute<{ name: string }[]>("select name from mikro_orm_migrations").catch(asDatabaseUrlError)
    : [];
  const done = new Set(rows.map(({ name }) => name));
  const ahead = [...done].filter((name) => name > (own.at(-1) ?? ""));
  if (ahead.length > 0) log.warn({ migrations: ahead }, "the database schema is newer than this process");
  const missing = own.filter((name) => !done.has(name));
  if (missing.length > 0) {
    const problem = `The database lacks ${missing.length} of ${own.length} migrations`;
    throw new Error(`${problem}. Run npm run migrate with this version first, or leave MIGRATE on.`);
  }
  if (!schema?.hasSearch) log.warn(NO_SEARCH_INDEX);
}

/**
 * Grants a PostgreSQL role the privileges that the service needs. The role can read the audit log and append to it, but
 * not change or delete events. Run it as the owner of the tables, after each migration.
 * @throws Error if the name needs quoting, or if the role may create objects in the schema: the owner could be made to
 * run its functions (CVE-2018-1058)
 */
export async function grantServiceRole(em: SqlEntityManager, role: string): Promise<void> {
  if (!/^[a-z_][a-z0-9_]{0,62}$/.test(role)) throw new Error("The role must be a plain lower-case name.");
  await em.transactional(async () => {
    const [tables] = await em.execute<{ schema: string; open: boolean; owner: string }[]>(
      `select relnamespace::regnamespace::text as schema, relowner::regrole::text as owner,
         has_schema_privilege(?, relnamespace, 'create') as open
       from pg_class where oid = 'users'::regclass`,
      [role],
    );
    if (tables?.open) {
      const problem = `${role} may create in the schema ${tables.schema}, which was the default before PostgreSQL 15`;
      const remedy = `grant create on schema ${tables.schema} to ${tables.owner}; revoke create on schema ${tables.schema} from public`;
      throw new Error(`${problem}. As the schema's owner, run first: ${remedy}`);
    }
    await em.execute(`grant usage on schema ${tables?.schema} to ${role}`);
    await em.execute(`grant select, insert, update, delete on all tables in schema ${tables?.schema} to ${role}`);
    await em.execute(
      `do $$ declare part text; begin
         for part in select c.oid::regclass::text from pg_class c
           where c.relname ~ '^audit_(events|seals)' and c.relkind in ('r', 'p') and c.relnamespace = '${tables?.schema}'::regnamespace
         loop execute format('revoke all on %s from ${role}', part); end loop;
       end $$`,
    );
    await em.execute(`grant select, insert on audit_events, audit_seals to ${role}`);
  });
}
