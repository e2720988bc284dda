/** What a benchmark has opened: processes, databases. An interrupted one leaves nothing behind. */
const open = new Set<() => Promise<unknown>>();

/**
 * Remembers how something is closed.
 * @returns what closes it now, once
 */
export function closing(close: () => Promise<unknown>): () => Promise<void> {
  open.add(close);
  return async () => {
    if (open.delete(close)) await close();
  };
}

/** Closes whatever is still open, the newest first. */
export async function closeAll(): Promise<void> {
  for (const close of [...open].reverse()) {
    open.delete(close);
    await close();
  }
}

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => void closeAll().finally(() => process.exit(1)));
}
