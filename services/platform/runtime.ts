import { Session } from "node:inspector/promises";
import { enableCompileCache } from "node:module";
import { availableParallelism } from "node:os";
import { join } from "node:path";

/** Threads for DNS and files, beside one per core on which passwords are hashed. */
const OTHER_THREADS = 4;

/** Prepares Node. Call it before other modules are loaded: the start takes a quarter less time with compiled code at hand. */
export function prepareNode(): void {
  process.env.UV_THREADPOOL_SIZE ??= String(availableParallelism() + OTHER_THREADS); // read at the first use of the pool
  enableCompileCache(join(import.meta.dirname, "../../node_modules/.cache/gatehouse")); // does nothing if it is read-only
}

/** Returns the memory that the start has used and nothing needs any more: 70 MB, which Node would keep. Takes 50 ms. */
export async function collectGarbage(): Promise<void> {
  const session = new Session();
  session.connect();
  await session.post("HeapProfiler.collectGarbage");
  session.disconnect();
}
