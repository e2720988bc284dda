import { readdirSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { PGlite } from "@electric-sql/pglite";
import { pg_trgm } from "@electric-sql/pglite/contrib/pg_trgm";
import { dataDir as preparedCluster } from "@electric-sql/pglite-prepopulatedfs";
import { MikroORM } from "@mikro-orm/core";
import { PgliteDriver } from "@mikro-orm/pglite";
import { createPostgreSqlTypeParsers, type SqlEntityManager } from "@mikro-orm/sql";
import type { Logger } from "pino";
import array from "postgres-array";
import type { OnStatement } from "../platform/telemetry/tracing.ts";
import { makeDataFolder, makePrivateFolder, restrict } from "./data-folder.ts";
import { startupError } from "./errors.ts";
import { assertWritable, ormOptions, PING } from "./orm.ts";
import { completeSearch } from "./search-indexes.ts";
import { parseTime, TIMESTAMPTZ } from "./statement.ts";
import type { Engine } from "./store.ts";

/** Minimum free disk space in bytes: one WAL segment. */
const MIN_FREE_BYTES = 16 * 1024 * 1024;

/**
 * Opens PostgreSQL inside the process.
 * @throws Error for operators if another process uses the folder
 */
export async function openEmbedded(
  location: { kind: "folder"; path: string } | { kind: "memory" },
  log: Logger,
  onStatement?: OnStatement,
): Promise<Engine> {
  const unlock = location.kind === "folder" ? lockDirectory(location.path) : () => {};
  const folder = location.kind === "folder" ? join(location.path, "pg") : undefined;
  const pglite = await createPglite(folder).catch((error) => {
    throw startupError("DATA_DIR", error);
  });
  const orm = await MikroORM.init({
    ...ormOptions(log, onStatement),
    driver: PgliteDriver,
    dbName: "postgres",
    driverOptions: { pglite: () => pglite },
  });
  return {
    em: orm.em as SqlEntityManager,
    run: ({ text }, values) => pglite.query(text, values),
    async ping() {
      if (folder) {
        const { bavail, bsize } = await statfs(folder);
        if (bavail * bsize < MIN_FREE_BYTES) throw new Error("The disk with DATA_DIR is full.");
      }
      assertWritable(await pglite.query(PING));
    },
    async migrate() {
      await orm.migrator.up();
      await completeSearch(orm.em.fork() as SqlEntityManager, false);
    },
    connections: () => ({ used: 0, idle: 1, waiting: 0 }), // it runs in this process
    async close() {
      await orm.close(true);
      await pglite.close();
      if (folder) restrict(folder);
      unlock();
    },
  };
}

/**
 * A new cluster is created from a prepared image, which saves seconds. The instance is passed to
 * the ORM, which would copy options.
 */
async function createPglite(path: string | undefined): Promise<PGlite> {
  if (path) makePrivateFolder(path);
  const fresh = !path || readdirSync(path).length === 0;
  const pglite = await PGlite.create({
    dataDir: path ?? "memory://",
    extensions: { pg_trgm },
    startParams: [...PGlite.defaultStartParams, "-c", "shared_buffers=16MB"], // 128 MB would take half a second and stay in memory
    parsers: {
      ...createPostgreSqlTypeParsers((text: string) => array.parse(text)),
      [TIMESTAMPTZ]: parseTime,
    },
    ...(fresh && { loadDataDir: await preparedCluster() }),
  });
  if (path) restrict(path); // files from the image have mode 666; some new ones follow the umask
  return pglite;
}

/** SQLite's result code for a file locked by another connection. */
const SQLITE_BUSY = 5;

/**
 * Open locks. Unreferenced connections would be garbage collected, which would unlock their folder.
 */
const locks = new Set<DatabaseSync>();

/**
 * Locks the embedded database's folder for this process, since PGlite would let two processes write
 * the same files. Uses SQLite's file lock, which the kernel releases however the process ends and
 * which works across containers that share the folder.
 * @returns a function that releases the lock
 * @throws Error for operators if a running process holds the lock
 */
export function lockDirectory(path: string): () => void {
  makeDataFolder(path);
  try {
    const file = join(path, "lock.sqlite");
    const lock = new DatabaseSync(file);
    restrict(file); // before the journal exists, which gets the same mode
    lock.exec("begin exclusive");
    locks.add(lock);
    return () => {
      locks.delete(lock);
      lock.close();
    };
  } catch (error) {
    if ((error as { errcode?: number }).errcode !== SQLITE_BUSY)
      throw startupError("DATA_DIR", error);
    throw new Error(
      `The folder ${path} is in use by another Gatehouse process. Stop it, or set DATA_DIR.`,
    );
  }
}
