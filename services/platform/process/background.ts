import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { Clock } from "./clock.ts";

/** How often a job checks whether it is due, in ms: the clock may be changed while it waits. */
const POLL_INTERVAL_MS = 1_000;
/** Longest delay before a retry, in ms. */
const MAX_RETRY_MS = 60_000;

/**
 * Work that repeats in the background, never concurrently with itself. `signal` aborts when the job
 * is closed.
 */
export type Job = { name: string; intervalMs: number; run(signal: AbortSignal): Promise<unknown> };

/**
 * Starts a job: runs it immediately, then once per interval. Retries after failures and logs the
 * first in a row.
 */
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
        await wait(Math.min(waitMs, POLL_INTERVAL_MS), undefined, { signal: waking.signal }).catch(
          () => {},
        ); // woken
        continue;
      }
      waking = new AbortController();
      dueAt = now + job.intervalMs;
      try {
        await job.run(closing.signal);
        isFailing = false;
      } catch (error) {
        if (!isFailing)
          log.warn(
            { job: job.name, reason: (error as Error).message },
            "background job failed, will retry",
          );
        isFailing = true;
        dueAt = now + Math.min(job.intervalMs, MAX_RETRY_MS);
      }
    }
  };
  const running = loop();
  return {
    /**
     * Runs the job without waiting for its interval; runs it once more if it is already running.
     */
    wake,
    /** Stops the job. Resolves once the current run has ended. */
    close() {
      closing.abort();
      wake();
      return running;
    },
  };
}
