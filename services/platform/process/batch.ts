import type { Logger } from "pino";

/** Time after which a failed write is tried again, in ms. */
const RETRY_MS = 1_000;

/** Most items that wait, while the database is unreachable; the oldest are dropped first. */
const MAX_ITEMS = 20_000;

type BatchOptions<Item> = {
  name: string;
  /** Time from the first item until all are written together, in ms. */
  intervalMs: number;
  /** Most items that one call of `write` takes. */
  batchSize: number;
  write(items: Item[]): Promise<unknown>;
  log: Pick<Logger, "warn">;
};

/**
 * Collects items and writes them together. Logs the first of several failures in a row, keeps the
 * items and retries.
 */
export function createBatch<Item>(options: BatchOptions<Item>) {
  const { name, intervalMs, batchSize, write, log } = options;
  let waiting = new Map<string, Item>();
  let writing = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;
  let isFailing = false;

  async function writeAll(): Promise<void> {
    const items = [...waiting];
    waiting = new Map();
    try {
      for (; items.length > 0; items.splice(0, batchSize)) {
        await write(items.slice(0, batchSize).map(([, item]) => item));
        isFailing = false;
      }
    } catch (error) {
      if (!isFailing)
        log.warn(
          { batch: name, reason: (error as Error).message },
          "batch not written, will retry",
        );
      isFailing = true;
      waiting = new Map([...items, ...waiting].slice(-MAX_ITEMS)); // newer items replace older ones
      timer ??= setTimeout(flush, RETRY_MS).unref();
    }
  }

  function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    writing = writing.then(writeAll);
    return writing;
  }

  return {
    /** Adds an item, or replaces the one of the same key. */
    set(key: string, item: Item) {
      const [oldest] = waiting.keys();
      if (oldest !== undefined && waiting.size >= MAX_ITEMS) waiting.delete(oldest);
      waiting.set(key, item);
      timer ??= setTimeout(flush, intervalMs);
    },
    /**
     * Writes what waits. Resolves when it is written, or the try has failed. Call it before closing
     * what it writes to.
     */
    flush,
  };
}
