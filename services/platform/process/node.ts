import { readdirSync, readFileSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { enableCompileCache } from "node:module";
import { availableParallelism, constants, setPriority, totalmem } from "node:os";
import { join } from "node:path";
import { getHeapStatistics } from "node:v8";

/** Threads for DNS and files, in addition to one per core for hashing passwords. */
const OTHER_THREADS = 4;

/**
 * Prepares Node. Call it before other modules are loaded: cached compiled code makes startup a
 * quarter faster. The npm scripts also set NODE_COMPILE_CACHE, so that Node need not load its
 * TypeScript compiler (11 MiB) for the modules that are loaded before this call.
 */
export function prepareNode(): void {
  process.env.UV_THREADPOOL_SIZE ??= String(availableParallelism() + OTHER_THREADS); // read when the pool is first used
  enableCompileCache(join(import.meta.dirname, "../../../node_modules/.cache/gatehouse")); // no effect if it is read-only
}

/**
 * Lowers the priority of the thread pool below that of the main thread; otherwise password hashes
 * would take all cores during a flood of logins. Call it once the pool is in use. No effect where
 * `/proc` does not name threads, as on systems other than Linux.
 */
export function lowerPoolPriority(): void {
  try {
    for (const thread of readdirSync("/proc/self/task")) {
      const name = readFileSync(`/proc/self/task/${thread}/comm`, "utf8").trim();
      if (name === "libuv-worker")
        setPriority(Number(thread), constants.priority.PRIORITY_BELOW_NORMAL);
    }
  } catch {} // only an optimization
}

/**
 * Frees memory that is no longer needed after startup: 70 MB, which Node would keep. Takes 50 ms.
 */
export async function collectGarbage(): Promise<void> {
  const session = new Session();
  session.connect();
  await session.post("HeapProfiler.collectGarbage");
  session.disconnect();
}

/**
 * Memory available to the process and its workers: that of the container, or else of the machine.
 */
export const memoryBytes = (): number =>
  Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem());

/** Fraction of a worker's memory that its heap may use, as Node does for a single process. */
const HEAP_FRACTION_OF_WORKER = 0.5;
const MIB = 1024 * 1024;
const HEAP_OPTION = "--max-old-space-size";

/**
 * Node options for each of the given number of workers: those of this process, and a heap limit,
 * because each worker would otherwise size its heap by the total memory. A limit set by the
 * operator is kept.
 */
export function workerOptions(workers: number): string[] {
  const given = `${process.execArgv.join(" ")} ${process.env.NODE_OPTIONS ?? ""}`;
  const heapBytes = (memoryBytes() / workers) * HEAP_FRACTION_OF_WORKER;
  const isSet = given.includes(HEAP_OPTION);
  if (isSet || heapBytes >= getHeapStatistics().heap_size_limit) return process.execArgv;
  return [...process.execArgv, `${HEAP_OPTION}=${Math.floor(heapBytes / MIB)}`];
}
