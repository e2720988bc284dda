/**
 * Cleanup of processes, databases and folders that a benchmark has opened, so that an interrupted
 * run leaves nothing behind.
 */
const open = new Set<() => Promise<unknown>>();

/**
 * Registers a cleanup.
 * @returns a function that runs it now, once
 */
export function closing(close: () => Promise<unknown>): () => Promise<void> {
  open.add(close);
  return async () => {
    if (open.delete(close)) await close();
  };
}

/** Runs all remaining cleanups, the newest first. */
export async function closeAll(): Promise<void> {
  for (const close of [...open].reverse()) {
    open.delete(close);
    await close();
  }
}

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => void closeAll().finally(() => process.exit(1)));
}
