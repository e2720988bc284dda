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
 * Number of pooled connections per process. Health checks have an additional one for when all are
 * in use, since a busy process is not unhealthy.
 */
const POOL_SIZE = 10;
/** Maximum time that a call waits for a connection, and a connection for the server, in ms. */
const CONNECT_TIMEOUT_MS = 3_000;
/**
 * Maximum duration of a statement in ms, unless a caller sets another. Requests need far less.
 */
const STATEMENT_TIMEOUT_MS = 15_000;
/**
 * Maximum duration of creating an index, in ms. Other statements can read and write in the
 * meantime.
 */
const INDEX_TIMEOUT_MS = 86_400_000;
/**
 * Fraction of the maximum duration that a statement waits for a lock, so that a locked table does
 * not tie up every connection.
 */
const LOCK_FRACTION = 1 / 5;
/**
 * Maximum duration of a health check's statement, in ms, and idle time after which its connection
 * is closed, before it would count as silent.
 */
const PROBE_TIMEOUT_MS = 1_000;
const PROBE_IDLE_MS = 2_500;
/**
 * How long, in ms, a request's successful statement proves that the database is available when a
 * health check gets no connection or no reply: the server may have no free slot for it.
 */
const PROOF_MS = 2_000;
/** How long after its timeout a statement's result may still arrive, in ms. */
const RESPONSE_GRACE_MS = 2_000;
/**
 * Settings that our statements rely on, regardless of the settings of server, database and role.
 * `jit` is off because compiling a plan takes longer than any statement gains: 60 of 190 ms for a
 * page of usage.
 */
const SETTINGS =
  "-c datestyle=ISO -c timezone=UTC -c default_transaction_isolation=read\\ committed -c standard_conforming_strings=on -c jit=off";

/**
 * Opens a pool of connections to a PostgreSQL server.
 * @throws Error for operators if nothing answers at the URL
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
 * Runs a prepared statement. If its connection can't use the prepared version, runs the statement
 * again without a name. That is safe: there is no transaction, and the statement has changed
 * nothing. The pool closes the first connection, as it does after any error.
 */
function runPrepared(pool: pg.Pool, { name, text }: Statement, values: unknown[]) {
  return pool.query({ name, text, values }).catch((error) => {
    if (!isStaleStatement(error)) throw error;
    return pool.query({ text, values });
  });
}

/**
 * The connection for health checks: one from the pool or, while all of those are in use, a separate
 * one, so that a check does not queue behind the calls of a busy process.
 */
function createProbe(pool: pg.Pool) {
  const own = new pg.Pool({
    ...pool.options,
    password: pool.options.password, // pg hides the password when options are copied
    max: 1,
    idleTimeoutMillis: PROBE_IDLE_MS,
    statement_timeout: PROBE_TIMEOUT_MS,
    stream: () => createSocket(PROBE_TIMEOUT_MS + RESPONSE_GRACE_MS),
  }).on("error", () => {}); // closed while idle; the next check reconnects
  const query = { text: PING, query_timeout: PROBE_TIMEOUT_MS }; // also closes an unresponsive connection
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

/** @param silenceMs closes connections that receive nothing for this time; 0 means never */
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
 * A socket that closes after too long a silence: after a network partition, the kernel would wait
 * for hours.
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
 * whose connection breaks would use up a connection forever.
 */
function releaseBrokenConnections(pool: pg.Pool): void {
  const inUse = new WeakSet<object>();
  pool.on("acquire", (client) => inUse.add(client));
  pool.on("release", (_error, client) => inUse.delete(client));
  pool.on("connect", (client) => {
    const releaseBroken = () => inUse.has(client) && client.release(true);
    client.once("end", () => setImmediate(releaseBroken)); // a failed query releases it first
  });
}

async function migratePostgres(url: string, log: Logger): Promise<void> {
  const orm = await connect(url, log, STATEMENT_TIMEOUT_MS, 0);
  await migrateUnderLock(orm, log).finally(() => orm.close(true));
  const patient = await connect(url, log, INDEX_TIMEOUT_MS, 0);
  await completeSearch(patient.em.fork(), true).finally(() => patient.close(true));
}

/**
 * Values of libpq's `sslmode`. `allow` and `prefer` mean `require`: we never fall back to a
 * connection without TLS.
 */
const MODES = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

/**
 * Parses a PostgreSQL URL as libpq does (PostgreSQL documentation, "Connection Strings"):
 * `sslmode=require` encrypts, `verify-full` also checks the server's certificate against
 * `sslrootcert` or, without it, Node's certificate authorities. The ORM itself ignores URL
 * parameters.
 * @throws Error if a certificate can't be read or the mode is unknown
 */
function parseConnectionUrl(url: string) {
  const read = new URL(url);
  const mode = read.searchParams.get("sslmode");
  if (mode !== null && !MODES.includes(mode))
    throw new Error(`sslmode must be one of ${MODES.join(", ")}`);
  if (mode === "allow") read.searchParams.set("sslmode", "prefer");
  if (read.searchParams.get("sslrootcert") === "system") read.searchParams.delete("sslrootcert");
  read.searchParams.delete("uselibpqcompat"); // the mode is always used
  const config = toClientConfig(parse(read.href, { useLibpqCompat: true }));
  const { host, port, user, password, ssl, application_name, options } = config;
  return { host, port, user, password, ssl, application_name, options };
}

/**
 * URL parameters that are used. Others are ignored, such as `search_path`, which belongs in
 * `options`.
 */
const SUPPORTED =
  /^(host|port|user|password|application_name|options|ssl|sslmode|sslrootcert|sslcert|sslkey|uselibpqcompat)$/;

/**
 * Checks at startup what would make some requests fail later: a pooler that mixes up prepared
 * statements, and an encoding that can't store all characters. Warns about `synchronous_commit =
 * off` and about ignored URL parameters.
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
    const read = { name: "pooler_probe", text }; // a pooler that shares connections between clients must track prepared statements
    await clients[0].query(read);
    const { rows } = await clients[1].query(read);
    const [{ encoding, commit }] = rows;
    if (encoding !== "UTF8")
      throw new Error(
        `the database has encoding ${encoding}. Create a database with encoding 'UTF8'`,
      );
    if (commit === "off")
      log.warn("synchronous_commit is off: a crash of PostgreSQL loses acknowledged changes");
  } catch (error) {
    if ((error as { code?: string }).code !== "42P05") throw error; // already exists: prepared by the other client
    const problem =
      "the connection pooler mixes up prepared statements. Let it track them, or use session pooling";
    throw new Error(problem, { cause: error });
  } finally {
    for (const client of clients) client.release(true); // leave no open connections, even after a failure
  }
}
