import { readdirSync, readFileSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { enableCompileCache } from "node:module";
import { availableParallelism, constants, setPriority } from "node:os";
import { join } from "node:path";

/** Threads for DNS and files, in addition to one per core for hashing passwords. */
const OTHER_THREADS = 4;

/**
 * Prepares Node. Must be called before large modules are loaded: cached compiled code makes startup a
 * quarter faster.
 */
export function prepareNode(): void {
  process.env.UV_THREADPOOL_SIZE ??= String(availableParallelism() + OTHER_THREADS); // read when the pool is first used
  enableCompileCache(join(import.meta.dirname, "../../../node_modules/.cache/gatehouse")); // no effect if it is read-only
}

/**
 * Lowers the priority of the thread pool below that of the main thread; otherwise password hashes would
 * take all cores during a flood of logins. Call it once the pool is in use. No effect where `/proc`
 * does not name threads, as on systems other than Linux.
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
 * Frees the memory that startup used and nothing needs any more: 70 MB, which Node would keep.
 * Takes 50 ms.
 */
export async function collectGarbage(): Promise<void> {
  const session = new Session();
  session.connect();
  await session.post("HeapProfiler.collectGarbage");
  session.disconnect();
}
