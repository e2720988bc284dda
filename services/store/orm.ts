import { readdirSync } from "node:fs";
import { join } from "node:path";
import { PGlite } from "@electric-sql/pglite";
import { pg_trgm } from "@electric-sql/pglite/contrib/pg_trgm";
import { dataDir as preparedCluster } from "@electric-sql/pglite-prepopulatedfs";
import { MikroORM, type Transaction } from "@mikro-orm/core";
import { Migrator } from "@mikro-orm/migrations";
import { PgliteDriver } from "@mikro-orm/pglite";
import { PostgreSqlDriver, type SqlEntityManager } from "@mikro-orm/postgresql";
import { createPostgreSqlTypeParsers } from "@mikro-orm/sql";
import type { Logger } from "pino";
import array from "postgres-array";
import { AuditEvent } from "./audit-event.ts";
import { breakSilent, giveBackBroken } from "./connections.ts";
import { checkRoom, makeDataFolder } from "./data-folder.ts";
import { lockDirectory } from "./directory-lock.ts";
import { Email } from "./email.ts";
import { blameUrl, unusable } from "./errors.ts";
import { LOCKS } from "./locks.ts";
import { USERS_SEARCH } from "./migrations/Migration20261121000400_lists.ts";
import { MIGRATIONS } from "./migrations.ts";
import { OneTimeToken } from "./one-time-token.ts";
import { connectionOf } from "./postgres-url.ts";
import { RECORD } from "./schema.ts";
import { Session } from "./session.ts";
import { SigningKey } from "./signing-key.ts";
import { refuseUnsuitable } from "./suitable.ts";
import { Usage } from "./usage.ts";
import { User } from "./user.ts";

/** Connections to PostgreSQL of one process. */
const POOL_SIZE = 10;
/** How long a call waits for a connection, and a connection for its server, in ms. */
const CONNECT_TIMEOUT_MS = 3_000;
/** Longest statement in ms, unless told otherwise; nothing on a request path comes near. */
const STATEMENT_TIMEOUT_MS = 15_000;
/** Part of it that a lock is waited for: else a table that somebody locks has every connection waiting before long. */
const LOCK_PART = 1 / 5;
/** How much later than its end a statement's answer may come, in ms. */
const ANSWER_MS = 2_000;
/** What statements take for granted, whatever a server, database or role sets. */
const SETTINGS =
  "-c datestyle=ISO -c timezone=UTC -c default_transaction_isolation=read\\ committed -c standard_conforming_strings=on";
/** Migrations take their time, and so does whoever waits for them: an index of a large table is made in minutes. */
const UNHURRY =
  "select set_config(name, '0', true) from pg_settings where name ~ '^(statement|lock|.*transaction.*)_timeout$'";

/** Where the rows are: PostgreSQL by URL, an embedded one in a folder, or an embedded one that keeps nothing. */
export type DatabaseLocation =
  | { kind: "postgres"; url: string; statementMs?: number }
  | { kind: "folder"; path: string }
  | { kind: "memory" };

/** SQL with $1, $2 for its values; a connection parses and plans it once and finds it again by its name. */
export type Statement = { name: string; text: string };

/** Prepares SQL that has `?` for its values. */
export function prepared(name: string, sql: string): Statement {
  let count = 0;
  return { name, text: sql.replaceAll("?", () => `$${++count}`) };
}

/** An open database. */
export type Store = {
  /** A fresh unit of work for one call. Inside `transactional` it joins the transaction by itself. */
  fork(): SqlEntityManager;
  /** Runs a statement of the hot path, past the ORM and beside every transaction; rows are as `execute` gives them. */
  query<Row>(statement: Statement, values: unknown[]): Promise<Row[]>;
  /** Brings the schema up to date; any number of processes may call it at once. */
  migrate(): Promise<void>;
  /** Resolves when the database answers and takes writes, and an embedded one has room. */
  ping(): Promise<void>;
  close(): Promise<void>;
};

/** What the rows are, as the ORM reads and writes them; a test holds them to the migrated tables. */
export const entities = [User, Session, OneTimeToken, Email, AuditEvent, SigningKey, Usage];

/**
 * Opens the database; the same entities and migrations serve both engines.
 * @throws Error for operators, when another process uses the folder, or nothing answers at the URL
 */
export async function openStore(location: DatabaseLocation, log: Logger): Promise<Store> {
  if (location.kind !== "postgres") return openEmbedded(location, log);
  return openPostgres(location.url, log, location.statementMs).catch(blameUrl);
}

function common(log: Logger) {
  return {
    entities,
    extensions: [Migrator],
    migrations: { migrationsList: MIGRATIONS, snapshot: false, silent: true },
    logger: (message: string) => log.debug(message),
  };
}

async function openPostgres(url: string, log: Logger, statementMs = STATEMENT_TIMEOUT_MS): Promise<Store> {
  const orm = await connect(url, log, statementMs);
  const pool = await orm.em.getConnection().getNativeClient();
  giveBackBroken(pool);
  breakSilent(pool, statementMs + ANSWER_MS);
  await refuseUnsuitable(pool, url, log);
  return {
    ...forkAndPing(orm),
    async query<Row>(statement: Statement, values: unknown[]) {
      return (await pool.query({ ...statement, values })).rows as Row[];
    },
    migrate: () => migratePostgres(url, log).catch(blameUrl),
    close: () => orm.close(true),
  };
}

function connect(url: string, log: Logger, statementMs = STATEMENT_TIMEOUT_MS) {
  const { options = "", ...asked } = connectionOf(url);
  return MikroORM.init({
    ...common(log),
    driver: PostgreSqlDriver,
    clientUrl: url,
    pool: { min: 0, max: POOL_SIZE },
    driverOptions: {
      ...asked,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      statement_timeout: statementMs,
      options: `${options} ${SETTINGS} -c lock_timeout=${Math.ceil(statementMs * LOCK_PART)}`,
      keepAlive: true,
    },
  });
}

/** Runs in one transaction, whose end gives the lock back, behind a pooler as well; on connections that may be silent. */
async function migratePostgres(url: string, log: Logger): Promise<void> {
  const orm = await connect(url, log);
  try {
    await orm.em.fork().transactional(async (em) => {
      await em.execute(UNHURRY);
      await em.execute("select pg_advisory_xact_lock(?)", [LOCKS.migrate]);
      const [record] = await em.execute<{ name: string }[]>(RECORD);
      if (record) orm.config.set("migrations", { ...orm.config.get("migrations"), tableName: record.name });
      await orm.migrator.up({ transaction: em.getTransactionContext() as Transaction });
      await em.execute(USERS_SEARCH); // the extension may have come since
    });
  } finally {
    await orm.close(true);
  }
}

async function openEmbedded(
  location: { kind: "folder"; path: string } | { kind: "memory" },
  log: Logger,
): Promise<Store> {
  const unlock = location.kind === "folder" ? lockDirectory(location.path) : () => {};
  const folder = location.kind === "folder" ? join(location.path, "pg") : undefined;
  const pglite = await createPglite(folder).catch((error) => {
    throw unusable("DATA_DIR", error);
  });
  const orm = await MikroORM.init({
    ...common(log),
    driver: PgliteDriver,
    dbName: "postgres",
    driverOptions: { pglite: () => pglite },
  });
  const { fork, ping } = forkAndPing(orm);
  return {
    fork,
    async ping() {
      if (folder) await checkRoom(folder);
      await ping();
    },
    query: async <Row>({ text }: Statement, values: unknown[]) => (await pglite.query<Row>(text, values)).rows,
    migrate: async () => void (await orm.migrator.up()),
    async close() {
      await orm.close(true);
      await pglite.close();
      unlock();
    },
  };
}

/** A new cluster starts from a prepared image, which saves seconds; an instance of our own, since the ORM copies options. */
async function createPglite(path: string | undefined): Promise<PGlite> {
  if (path) makeDataFolder(path);
  const fresh = !path || readdirSync(path).length === 0;
  return PGlite.create({
    dataDir: path ?? "memory://",
    extensions: { pg_trgm },
    parsers: createPostgreSqlTypeParsers((text: string) => array.parse(text)),
    ...(fresh && { loadDataDir: await preparedCluster() }),
  });
}

function forkAndPing(orm: { em: unknown }): Pick<Store, "fork" | "ping"> {
  const em = orm.em as SqlEntityManager;
  return {
    fork: () => em.fork({ useContext: true }), // PGlite has one connection: a query beside its transaction waits for ever
    async ping() {
      const rows = await em.fork().execute("select 1 where current_setting('transaction_read_only') = 'off'");
      if (rows.length === 0) throw new Error("the database takes no writes");
    },
  };
}
