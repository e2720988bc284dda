import type { Logger } from "pino";

export type BatchOptions<Item> = {
  name: string;
  /** Time in ms from the first item until all are written together, and after a failure until the next try. */
  intervalMs: number;
  retryMs: number;
  /** Most items that one call of `write` takes, and most that wait; the oldest are dropped first. */
  batchSize: number;
  maxItems: number;
  write(items: Item[]): Promise<unknown>;
  log: Pick<Logger, "warn">;
};

/** Items by key that are waiting to be written. */
export type Batch<Item> = {
  /** Adds an item, or replaces the one of the same key. */
  set(key: string, item: Item): void;
  /** Writes what waits. Resolves when it is written, or the try has failed. Call it before closing what it writes to. */
  flush(): Promise<void>;
};

/** Collects items and writes them together. Logs the first of several failures in a row, keeps the items and retries. */
export function createBatch<Item>(options: BatchOptions<Item>): Batch<Item> {
  const { name, intervalMs, retryMs, batchSize, maxItems, write, log } = options;
  let waiting = new Map<string, Item>();
  let writing = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;
  let isFailing = false;

  async function writeAll(): Promise<void> {
    const items = [...waiting];
    waiting = new Map();
    while (items.length > 0) {
      try {
        await write(items.slice(0, batchSize).map(([, item]) => item));
        items.splice(0, batchSize);
        isFailing = false;
      } catch (error) {
        if (!isFailing) log.warn({ batch: name, reason: (error as Error).message }, "batch not written, will retry");
        isFailing = true;
        waiting = new Map([...items, ...waiting].slice(-maxItems)); // newer items replace older ones
        timer ??= setTimeout(flush, retryMs).unref();
        return;
      }
    }
  }

  function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    writing = writing.then(writeAll);
    return writing;
  }

  return {
    set(key, item) {
      const [oldest] = waiting.keys();
      if (oldest !== undefined && waiting.size >= maxItems) waiting.delete(oldest);
      waiting.set(key, item);
      timer ??= setTimeout(flush, intervalMs);
    },
    flush,
  };
}
