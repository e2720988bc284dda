import { Socket } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import { MikroORM } from "@mikro-orm/core";
import { PostgreSqlDriver } from "@mikro-orm/postgresql";
import pg, { type TypeOverrides } from "pg";
import { parse, toClientConfig } from "pg-connection-string";
import type { Logger } from "pino";
import type { OnStatement } from "../platform/telemetry/tracing.ts";
import { asDatabaseUrlError, isStaleStatement } from "./errors.ts";
import { assertWritable, ormOptions, PING } from "./orm.ts";
import { migrateUnderLock } from "./schema.ts";
import { completeSearch } from "./search-indexes.ts";
import { parseTime, type Statement, TIMESTAMPTZ } from "./statement.ts";
import type { Engine } from "./store.ts";

/**
 * Connections to PostgreSQL of one process, beside one for health checks while all of them are in
 * use: a busy process is not a broken one.
 */
const POOL_SIZE = 10;
/** How long a call waits for a connection, and a connection for its server, in ms. */
const CONNECT_TIMEOUT_MS = 3_000;
/**
 * Longest statement in ms, unless a caller sets another. Statements of requests are far shorter.
 */
const STATEMENT_TIMEOUT_MS = 15_000;
/** Longest making of an index, in ms: others read and write meanwhile. */
const INDEX_TIMEOUT_MS = 86_400_000;
/**
 * Part of that time that a statement waits for a lock, so that a locked table does not occupy every
 * connection.
 */
const LOCK_FRACTION = 1 / 5;
/**
 * Longest statement of a health check, in ms. Its connection closes when idle, before it counts as
 * silent.
 */
const PROBE_TIMEOUT_MS = 1_000;
const PROBE_IDLE_MS = 2_500;
/**
 * Time in ms for which a statement of a request proves that the database serves this process, if a
 * health check gets no connection or no reply: a server may have no free slot for it.
 */
const PROOF_MS = 2_000;
/** How long after its timeout a statement's result may arrive, in ms. */
const RESPONSE_GRACE_MS = 2_000;
/** Settings that our statements rely on, whatever a server, database or role sets. */
const SETTINGS =
  "-c datestyle=ISO -c timezone=UTC -c default_transaction_isolation=read\\ committed -c standard_conforming_strings=on";

/**
 * Opens a pool of connections to a PostgreSQL server.
 * @throws Error for operators, when nothing answers at the URL
 */
export async function openPostgres(
  url: string,
  log: Logger,
  onStatement?: OnStatement,
  statementMs = STATEMENT_TIMEOUT_MS,
): Promise<Engine> {
  const orm = await connect(url, log, statementMs, statementMs + RESPONSE_GRACE_MS, onStatement);
  const pool = await orm.em.getConnection().getNativeClient();
  releaseBrokenConnections(pool);
  (pool.options.types as TypeOverrides).setTypeParser(TIMESTAMPTZ, parseTime);
  await checkServer(pool, url, log);
  const probe = createProbe(pool);
  let servedAt = Number.NEGATIVE_INFINITY;
  return {
    em: orm.em,
    async run(statement, values) {
      const result = await runPrepared(pool, statement, values);
      servedAt = performance.now();
      return result;
    },
    async ping() {
      const answer = await probe.ask().catch((error) => {
        if (performance.now() - servedAt > PROOF_MS) throw error;
      });
      if (answer) assertWritable(answer);
    },
    migrate: () => migratePostgres(url, log).catch(asDatabaseUrlError),
    connections: () => {
      const { totalCount, idleCount: idle, waitingCount: waiting } = pool;
      return { used: totalCount - idle, idle, waiting };
    },
    close: async () => void (await Promise.all([orm.close(true), probe.end()])),
  };
}

/**
 * Runs a prepared statement. If its connection can't use what it has prepared, runs the statement
 * again without a name, which prepares it anew. That is safe: there is no transaction, and the
 * statement has changed nothing. The pool closes the first connection, as after any error.
 */
function runPrepared(pool: pg.Pool, { name, text }: Statement, values: unknown[]) {
  return pool.query({ name, text, values }).catch((error) => {
    if (!isStaleStatement(error)) throw error;
    return pool.query({ text, values });
  });
}

/**
 * What health checks ask: a connection of the pool, as requests use it. While all are in use, one of
 * its own, so that a check does not wait behind the calls of a busy process.
 */
function createProbe(pool: pg.Pool) {
  const own = new pg.Pool({
    ...pool.options,
    password: pool.options.password, // which pg hides from a copy of the options
    max: 1,
    idleTimeoutMillis: PROBE_IDLE_MS,
    statement_timeout: PROBE_TIMEOUT_MS,
    stream: () => createSocket(PROBE_TIMEOUT_MS + RESPONSE_GRACE_MS),
  }).on("error", () => {}); // while it was idle: the next check connects again
  const query = { text: PING, query_timeout: PROBE_TIMEOUT_MS }; // closes a connection that is silent
  const isFree = () => pool.idleCount > pool.waitingCount || pool.totalCount < POOL_SIZE;
  return {
    /** Rejects if there is no reply within the time limit of a check. */
    ask(): Promise<{ rows: unknown[] }> {
      const late = wait(PROBE_TIMEOUT_MS, undefined, { ref: false }).then(() => {
        throw new Error("connection timeout: the database does not respond");
      });
      return Promise.race([(isFree() ? pool : own).query(query), late]);
    },
    end: () => own.end(),
  };
}

/** @param silenceMs closes connections that receive nothing for this time; 0: never */
function connect(
  url: string,
  log: Logger,
  statementMs: number,
  silenceMs: number,
  onStatement?: OnStatement,
) {
  const { options = "", ...urlOptions } = parseConnectionUrl(url);
  return MikroORM.init({
    ...ormOptions(log, onStatement),
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

/**
 * A socket that closes when it is silent for too long: after a network partition the kernel would
 * wait for hours.
 */
function createSocket(silenceMs: number): Socket {
  const socket = new Socket();
  const close = () =>
    socket.destroy(new Error("connection timeout: the database does not respond"));
  return socket.setTimeout(silenceMs, close);
}

/**
 * Returns broken connections to the pool. Kysely 0.29's ControlledTransaction releases its
 * connection only after a successful BEGIN, COMMIT or ROLLBACK; without this, each transaction
 * whose connection breaks uses one up for ever.
 */
function releaseBrokenConnections(pool: pg.Pool): void {
  const inUse = new WeakSet<object>();
  pool.on("acquire", (client) => inUse.add(client));
  pool.on("release", (_error, client) => inUse.delete(client));
  pool.on("connect", (client) => {
    const releaseBroken = () => inUse.has(client) && client.release(true);
    client.once("end", () => setImmediate(releaseBroken)); // whose query has failed releases it first
  });
}

async function migratePostgres(url: string, log: Logger): Promise<void> {
  const orm = await connect(url, log, STATEMENT_TIMEOUT_MS, 0);
  await migrateUnderLock(orm, log).finally(() => orm.close(true));
  const patient = await connect(url, log, INDEX_TIMEOUT_MS, 0);
  await completeSearch(patient.em.fork(), true).finally(() => patient.close(true));
}

/**
 * Values of libpq's `sslmode`. `allow` and `prefer` mean `require`: there is no fallback to a
 * connection without TLS.
 */
const MODES = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

/**
 * Parses a PostgreSQL URL as libpq does (PostgreSQL documentation, "Connection Strings"):
 * `sslmode=require` encrypts, `verify-full` also checks the server's certificate against
 * `sslrootcert` or, without it, Node's authorities. The ORM itself ignores the URL's parameters.
 * @throws Error if a certificate can't be read, or the mode is unknown
 */
function parseConnectionUrl(url: string) {
  const read = new URL(url);
  const mode = read.searchParams.get("sslmode");
  if (mode !== null && !MODES.includes(mode))
    throw new Error(`sslmode must be one of ${MODES.join(", ")}`);
  if (mode === "allow") read.searchParams.set("sslmode", "prefer");
  if (read.searchParams.get("sslrootcert") === "system") read.searchParams.delete("sslrootcert");
  read.searchParams.delete("uselibpqcompat"); // always on
  const config = toClientConfig(parse(read.href, { useLibpqCompat: true }));
  const { host, port, user, password, ssl, application_name, options } = config;
  return { host, port, user, password, ssl, application_name, options };
}

/**
 * Parameters of a URL that are used. Others are not, such as `search_path`, which belongs into
 * `options`.
 */
const SUPPORTED =
  /^(host|port|user|password|application_name|options|ssl|sslmode|sslrootcert|sslcert|sslkey|uselibpqcompat)$/;

/**
 * Checks at start-up what would make some requests fail later: a pooler that mixes up prepared
 * statements, and an encoding that can't store every character. Warns of `synchronous_commit = off`
 * and of ignored parameters of the URL.
 * @throws Error for operators
 */
async function checkServer(pool: pg.Pool, url: string, log: Logger): Promise<void> {
  const parameters = [...new URL(url).searchParams.keys()].filter((name) => !SUPPORTED.test(name));
  if (parameters.length > 0)
    log.warn({ parameters }, "DATABASE_URL has parameters that are ignored");
  const clients = await Promise.all([pool.connect(), pool.connect()]);
  try {
    const text =
      "select current_setting('server_encoding') as encoding, current_setting('synchronous_commit') as commit";
    const read = { name: "pooler_probe", text }; // a pooler that shares its connections between clients must track their statements
    await clients[0].query(read);
    const { rows } = await clients[1].query(read);
    const [{ encoding, commit }] = rows;
    if (encoding !== "UTF8")
      throw new Error(`the database has encoding ${encoding}. Create one with encoding 'UTF8'`);
    if (commit === "off")
      log.warn("synchronous_commit is off: a crash of PostgreSQL loses acknowledged changes");
  } catch (error) {
    if ((error as { code?: string }).code !== "42P05") throw error; // exists already: another client's connection
    const problem =
      "the connection pooler mixes up prepared statements. Let it track them, or use session pooling";
    throw new Error(problem, { cause: error });
  } finally {
    for (const client of clients) client.release(true); // a failed check leaves no open connections
  }
}
