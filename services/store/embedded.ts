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

/** Least free disk space in bytes: the size of the next WAL segment. */
const MIN_FREE_BYTES = 16 * 1024 * 1024;

/**
 * Opens PostgreSQL inside the process.
 * @throws Error for operators, if another process uses the folder
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
        if (bavail * bsize < MIN_FREE_BYTES)
          throw new Error("The disk that DATA_DIR is on is full.");
      }
      assertWritable(await pglite.query(PING));
    },
    async migrate() {
      await orm.migrator.up();
      await completeSearch(orm.em.fork() as SqlEntityManager, false);
    },
    connections: () => ({ used: 0, idle: 1, waiting: 0 }), // in the process itself
    async close() {
      await orm.close(true);
      await pglite.close();
      if (folder) restrict(folder);
      unlock();
    },
  };
}

/**
 * A new cluster starts from a prepared image, which saves seconds. The ORM receives the instance,
 * since it copies options.
 */
async function createPglite(path: string | undefined): Promise<PGlite> {
  if (path) makePrivateFolder(path);
  const fresh = !path || readdirSync(path).length === 0;
  const pglite = await PGlite.create({
    dataDir: path ?? "memory://",
    extensions: { pg_trgm },
    startParams: [...PGlite.defaultStartParams, "-c", "shared_buffers=16MB"], // 128 take half a second, and stay in memory
    parsers: {
      ...createPostgreSqlTypeParsers((text: string) => array.parse(text)),
      [TIMESTAMPTZ]: parseTime,
    },
    ...(fresh && { loadDataDir: await preparedCluster() }),
  });
  if (path) restrict(path); // the files of the image have the mode 666, and some new ones that of the umask
  return pglite;
}

/** SQLite's result code for a file that another connection has locked. */
const SQLITE_BUSY = 5;

/** Open locks: the garbage collector would close one that nobody refers to, and unlock its folder. */
const locks = new Set<DatabaseSync>();

/**
 * Locks the embedded database's folder for this process: PGlite would let two processes write the
 * same files. SQLite locks a file for it, which the kernel unlocks when the process ends in any
 * way, and keeps between containers with a shared folder.
 * @returns a function that releases the lock
 * @throws Error for operators, if a running process holds it
 */
export function lockDirectory(path: string): () => void {
  makeDataFolder(path);
  try {
    const file = join(path, "lock.sqlite");
    const lock = new DatabaseSync(file);
    restrict(file); // before its journal, which gets the same mode
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
