import { once } from "node:events";
import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { every, type Job } from "../../../services/platform/process/background.ts";
import { createBatch } from "../../../services/platform/process/batch.ts";
import { createClock } from "../../support/clock.ts";
import { captureLog } from "../../support/log.ts";
import { until } from "../../support/until.ts";

/** Starts a job that counts its runs. */
function start({ run = async () => {}, ...job }: Partial<Job>) {
  const { lines, log } = captureLog();
  const clock = createClock();
  const counted = { runs: 0, clock, lines };
  const counting = (signal: AbortSignal) => {
    counted.runs++;
    return run(signal);
  };
  const running = every(
    { name: "test", intervalMs: 3_600_000, ...job, run: counting },
    { clock, log },
  );
  return Object.assign(counted, running);
}

test("every: wake() runs the job immediately, and again after a run in progress", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const job = start({ run: () => promise });
  job.wake();
  job.wake();
  expect(job.runs).toBe(1);
  resolve();
  await until("the second run", () => job.runs === 2);
  job.wake();
  await until("the third run", () => job.runs === 3);
  await job.close();
  expect(job.runs).toBe(3);
});

test("every: logs the first of several failures, retries, and logs again after a success", async () => {
  let failing = true;
  const run = async () => {
    if (failing) throw new Error("no");
  };
  const job = start({ intervalMs: 5, run });
  await until("four failures", () => job.runs > 4);
  expect(job.lines).toHaveLength(1);
  expect(job.lines[0]).toContain("background job failed, will retry");
  failing = false;
  const { runs } = job;
  await until("a success", () => job.runs > runs + 1);
  failing = true;
  await until("a second line", () => job.lines.length === 2);
  await job.close();
});

test("every: close() aborts the signal and waits for the run in progress", async () => {
  let ended = false;
  const job = start({
    async run(signal) {
      await once(signal, "abort");
      await wait(20);
      ended = true;
    },
  });
  await job.close();
  expect({ ended, runs: job.runs }).toEqual({ ended: true, runs: 1 });
});

test("createBatch: writes the newest item of each key in batches, keeps items of a failed write, and logs the failure once", async () => {
  const { lines, log } = captureLog();
  const written: number[][] = [];
  let failing = true;
  const write = async (items: number[]) => {
    if (failing) throw new Error("no");
    written.push(items);
  };
  const batch = createBatch<number>({ name: "test", intervalMs: 10, batchSize: 2, log, write });
  batch.set("a", 1);
  batch.set("b", 2);
  await batch.flush();
  batch.set("a", 3);
  batch.set("c", 4);
  await batch.flush();
  failing = false;
  await until("the retry", () => written.length > 1);
  batch.set("d", 5);
  await until("the next write", () => written.length > 2);
  expect(written).toEqual([[3, 2], [4], [5]]);
  expect(lines).toEqual([expect.stringContaining("batch not written, will retry")]);
});
