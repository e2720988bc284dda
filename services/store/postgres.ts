import { MikroORM, type Transaction } from "@mikro-orm/core";
import { PostgreSqlDriver } from "@mikro-orm/postgresql";
import type { Logger } from "pino";
import { asDatabaseUrlError } from "./errors.ts";
import { LOCKS } from "./locks.ts";
import { USERS_SEARCH } from "./migrations/Migration20261121000400_lists.ts";
import { baseStore, ormOptions } from "./orm.ts";
import { destroyUnresponsive, releaseBrokenConnections } from "./pool-fixes.ts";
import { parseConnectionUrl } from "./postgres-url.ts";
import { checkServer } from "./preflight.ts";
import { MIGRATION_TABLE } from "./schema.ts";
import type { Statement, Store } from "./store.ts";

/** Connections to PostgreSQL of one process. */
const POOL_SIZE = 10;
/** How long a call waits for a connection, and a connection for its server, in ms. */
const CONNECT_TIMEOUT_MS = 3_000;
/** Longest statement in ms, unless told otherwise; nothing on a request path comes near. */
const STATEMENT_TIMEOUT_MS = 15_000;
/** Part of it that a lock is waited for: else a table that somebody locks has every connection waiting before long. */
const LOCK_FRACTION = 1 / 5;
/** How much later than its end a statement's answer may come, in ms. */
const RESPONSE_GRACE_MS = 2_000;
/** What statements take for granted, whatever a server, database or role sets. */
const SETTINGS =
  "-c datestyle=ISO -c timezone=UTC -c default_transaction_isolation=read\\ committed -c standard_conforming_strings=on";
/** Migrations take their time, and so does whoever waits for them: an index of a large table is made in minutes. */
const DISABLE_TIMEOUTS =
  "select set_config(name, '0', true) from pg_settings where name ~ '^(statement|lock|.*transaction.*)_timeout$'";

/** Opens a pool of connections to a PostgreSQL server. @throws Error for operators, when nothing answers at the URL */
export async function openPostgres(url: string, log: Logger, statementMs = STATEMENT_TIMEOUT_MS): Promise<Store> {
  const orm = await connect(url, log, statementMs);
  const pool = await orm.em.getConnection().getNativeClient();
  releaseBrokenConnections(pool);
  destroyUnresponsive(pool, statementMs + RESPONSE_GRACE_MS);
  await checkServer(pool, url, log);
  return {
    ...baseStore(orm),
    async query<Row>(statement: Statement, values: unknown[]) {
      return (await pool.query({ ...statement, values })).rows as Row[];
    },
    migrate: () => migratePostgres(url, log).catch(asDatabaseUrlError),
    close: () => orm.close(true),
  };
}

function connect(url: string, log: Logger, statementMs = STATEMENT_TIMEOUT_MS) {
  const { options = "", ...asked } = parseConnectionUrl(url);
  return MikroORM.init({
    ...ormOptions(log),
    driver: PostgreSqlDriver,
    clientUrl: url,
    pool: { min: 0, max: POOL_SIZE },
    driverOptions: {
      ...asked,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      statement_timeout: statementMs,
      options: `${options} ${SETTINGS} -c lock_timeout=${Math.ceil(statementMs * LOCK_FRACTION)}`,
      keepAlive: true,
    },
  });
}

/** Runs in one transaction, whose end gives the lock back, behind a pooler as well; on connections that may be silent. */
async function migratePostgres(url: string, log: Logger): Promise<void> {
  const orm = await connect(url, log);
  try {
    await orm.em.fork().transactional(async (em) => {
      await em.execute(DISABLE_TIMEOUTS);
      await em.execute("select pg_advisory_xact_lock(?)", [LOCKS.migrate]);
      const [record] = await em.execute<{ name: string }[]>(MIGRATION_TABLE);
      if (record) orm.config.set("migrations", { ...orm.config.get("migrations"), tableName: record.name });
      await orm.migrator.up({ transaction: em.getTransactionContext() as Transaction });
      await em.execute(USERS_SEARCH); // the extension may have come since
    });
  } finally {
    await orm.close(true);
  }
}
