import type { Logger } from "pino";

/** Delay before a failed write is retried, in ms. */
const RETRY_MS = 1_000;

/**
 * Maximum number of items waiting while the database is unreachable. The oldest are dropped first.
 */
const MAX_ITEMS = 20_000;

type BatchOptions<Item> = {
  name: string;
  /** Time from the first item until all waiting items are written, in ms. */
  intervalMs: number;
  /** Maximum number of items per call of `write`. */
  batchSize: number;
  write(items: Item[]): Promise<unknown>;
  log: Pick<Logger, "warn">;
};

/**
 * Collects items and writes them in batches. After a failure it keeps the items and retries, and
 * logs the first failure in a row.
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
      waiting = new Map([...items, ...waiting].slice(-MAX_ITEMS)); // newer items win
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
    /** Adds an item, or replaces the one with the same key. */
    set(key: string, item: Item) {
      const [oldest] = waiting.keys();
      if (oldest !== undefined && waiting.size >= MAX_ITEMS) waiting.delete(oldest);
      waiting.set(key, item);
      timer ??= setTimeout(flush, intervalMs);
    },
    /**
     * Writes all waiting items. Resolves once they are written or the attempt has failed. Call it
     * before closing the destination.
     */
    flush,
  };
}
