import { Socket } from "node:net";
import { MikroORM, type Transaction } from "@mikro-orm/core";
import { PostgreSqlDriver } from "@mikro-orm/postgresql";
import type { Logger } from "pino";
import { asDatabaseUrlError } from "./errors.ts";
import { LOCKS } from "./locks.ts";
import { USERS_SEARCH } from "./migrations/Migration20261121000400_lists.ts";
import { baseStore, ormOptions } from "./orm.ts";
import { parseConnectionUrl } from "./postgres-url.ts";
import { checkServer, type Pool } from "./preflight.ts";
import { MIGRATION_TABLE } from "./schema.ts";
import type { Statement, Store } from "./store.ts";

/** Connections to PostgreSQL of one process. */
const POOL_SIZE = 10;
/** How long a call waits for a connection, and a connection for its server, in ms. */
const CONNECT_TIMEOUT_MS = 3_000;
/** Longest statement in ms, unless a caller sets another. Statements of requests are far shorter. */
const STATEMENT_TIMEOUT_MS = 15_000;
/** Part of that time that a statement waits for a lock, so that a locked table does not occupy every connection. */
const LOCK_FRACTION = 1 / 5;
/** How long after its timeout a statement's result may arrive, in ms. */
const RESPONSE_GRACE_MS = 2_000;
/** Settings that our statements rely on, whatever a server, database or role sets. */
const SETTINGS =
  "-c datestyle=ISO -c timezone=UTC -c default_transaction_isolation=read\\ committed -c standard_conforming_strings=on";
/** For migrations and those that wait for them: creating an index of a large table takes minutes. */
const DISABLE_TIMEOUTS =
  "select set_config(name, '0', true) from pg_settings where name ~ '^(statement|lock|.*transaction.*)_timeout$'";

/** Opens a pool of connections to a PostgreSQL server. @throws Error for operators, when nothing answers at the URL */
export async function openPostgres(url: string, log: Logger, statementMs = STATEMENT_TIMEOUT_MS): Promise<Store> {
  const orm = await connect(url, log, statementMs, statementMs + RESPONSE_GRACE_MS);
  const pool = await orm.em.getConnection().getNativeClient();
  releaseBrokenConnections(pool);
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

/** @param silenceMs closes connections that receive nothing for this time; 0: never */
function connect(url: string, log: Logger, statementMs: number, silenceMs: number) {
  const { options = "", ...urlOptions } = parseConnectionUrl(url);
  return MikroORM.init({
    ...ormOptions(log),
    driver: PostgreSqlDriver,
    clientUrl: url,
    pool: { min: 0, max: POOL_SIZE },
    driverOptions: {
      ...urlOptions,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      statement_timeout: statementMs,
      options: `${options} ${SETTINGS} -c lock_timeout=${Math.ceil(statementMs * LOCK_FRACTION)}`,
      keepAlive: true,
      stream: () => createSocket(silenceMs),
    },
  });
}

/** A socket that closes when it is silent for too long: after a network partition the kernel would wait for hours. */
function createSocket(silenceMs: number): Socket {
  const socket = new Socket();
  const close = () => socket.destroy(new Error("connection timeout: the database does not respond"));
  return socket.setTimeout(silenceMs, close);
}

/**
 * Returns broken connections to the pool. Kysely 0.29's ControlledTransaction releases its connection only after a
 * successful BEGIN, COMMIT or ROLLBACK; without this, each transaction whose connection breaks uses one up for ever.
 */
function releaseBrokenConnections(pool: Pool): void {
  const inUse = new WeakMap<object, boolean>();
  pool.on("release", (_error, client) => inUse.set(client, false));
  pool.on("acquire", (client) => {
    const isNew = !inUse.has(client);
    inUse.set(client, true);
    if (!isNew) return;
    const releaseBroken = () => inUse.get(client) && client.release(true);
    client.once("end", () => setImmediate(releaseBroken)); // whose query has failed releases it first
  });
}

/** Migrates in one transaction, whose end releases the lock, also behind a pooler. */
async function migratePostgres(url: string, log: Logger): Promise<void> {
  const orm = await connect(url, log, STATEMENT_TIMEOUT_MS, 0);
  try {
    await orm.em.fork().transactional(async (em) => {
      await em.execute(DISABLE_TIMEOUTS);
      await em.execute("select pg_advisory_xact_lock(?)", [LOCKS.migrate]);
      const [record] = await em.execute<{ name: string }[]>(MIGRATION_TABLE);
      if (record) orm.config.set("migrations", { ...orm.config.get("migrations"), tableName: record.name });
      await orm.migrator.up({ transaction: em.getTransactionContext() as Transaction });
      await em.execute(USERS_SEARCH); // the extension may have been installed since
    });
  } finally {
    await orm.close(true);
  }
}
