import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { Clock } from "../platform/process.ts";

/** How often a job checks whether it is due, in ms, since the clock may be changed meanwhile. */
const POLL_INTERVAL_MS = 1_000;
/** Longest pause after a failure, in ms. */
const MAX_RETRY_MS = 60_000;

/** Work that is repeated in the background, never twice at a time. `signal` aborts when the job is closed. */
export type Job = { name: string; intervalMs: number; run(signal: AbortSignal): Promise<unknown> };

/** Starts a job: runs it at once, then once per interval. Logs the first of several failures in a row, and retries. */
export function every(job: Job, { clock, log }: { clock: Clock; log: Pick<Logger, "warn"> }) {
  const closing = new AbortController();
  let waking = new AbortController();
  const wake = () => waking.abort();
  const loop = async () => {
    let dueAt = 0;
    let isFailing = false;
    while (!closing.signal.aborted) {
      const now = clock.now().getTime();
      const waitMs = dueAt - now;
      if (!waking.signal.aborted && waitMs > 0 && waitMs <= job.intervalMs) {
        await wait(Math.min(waitMs, POLL_INTERVAL_MS), undefined, { signal: waking.signal }).catch(() => {}); // woken
        continue;
      }
      waking = new AbortController();
      dueAt = now + job.intervalMs;
      try {
        await job.run(closing.signal);
        isFailing = false;
      } catch (error) {
        if (!isFailing)
          log.warn({ job: job.name, reason: (error as Error).message }, "background job failed, will retry");
        isFailing = true;
        dueAt = now + Math.min(job.intervalMs, MAX_RETRY_MS);
      }
    }
  };
  const running = loop();
  return {
    /** Runs the job without waiting for its interval; once more if it is running already. */
    wake,
    /** Stops the job. Resolves when the current run has ended. */
    close() {
      closing.abort();
      wake();
      return running;
    },
  };
}

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

/** Collects items and writes them together. Logs the first of several failures in a row, keeps the items and retries. */
export function createBatch<Item>(options: BatchOptions<Item>) {
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
    /** Adds an item, or replaces the one of the same key. */
    set(key: string, item: Item) {
      const [oldest] = waiting.keys();
      if (oldest !== undefined && waiting.size >= maxItems) waiting.delete(oldest);
      waiting.set(key, item);
      timer ??= setTimeout(flush, intervalMs);
    },
    /** Writes what waits. Resolves when it is written, or the try has failed. Call it before closing what it writes to. */
    flush,
  };
}
