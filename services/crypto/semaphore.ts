/** Runs work with bounded concurrency; further callers wait, first come, first served. */
export type Semaphore = {
  /** @throws what `onFull` returns, if too many callers wait. */
  run<T>(work: () => Promise<T>): Promise<T>;
  waiting(): number;
};

/** @param max works in progress at once. @param maxWaiting callers that may wait. */
export function createSemaphore(max: number, maxWaiting: number, onFull: () => Error): Semaphore {
  let running = 0;
  const queue: (() => void)[] = [];
  return {
    async run(work) {
      if (running < max) running++;
      else if (queue.length >= maxWaiting) throw onFull();
      else await new Promise<void>((resolve) => queue.push(resolve));
      try {
        return await work();
      } finally {
        const next = queue.shift();
        if (next) next();
        else running--;
      }
    },
    waiting: () => queue.length,
  };
}
