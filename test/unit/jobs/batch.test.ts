import { expect, test } from "vitest";
import { type BatchOptions, createBatch } from "../../../services/jobs/background.ts";
import { captureLog } from "../../support/log.ts";
import { until } from "../../support/until.ts";

/** A batch of numbers whose writes are recorded, and fail while `failing` is set. */
function open(options: Partial<BatchOptions<number>> = {}) {
  const { lines, log } = captureLog();
  const state = { failing: false, written: [] as number[][], lines };
  const batch = createBatch<number>({
    name: "test",
    intervalMs: 10,
    retryMs: 10,
    batchSize: 100,
    maxItems: 100,
    log,
    async write(items) {
      if (state.failing) throw new Error("no");
      state.written.push(items);
    },
    ...options,
  });
  return Object.assign(state, batch);
}

test("createBatch: writes what was set within an interval together, the newest item of each key", async () => {
  const batch = open();
  batch.set("a", 1);
  batch.set("b", 2);
  batch.set("a", 3);
  await until("the write", () => batch.written.length > 0);
  expect(batch.written).toEqual([[3, 2]]);
  batch.set("c", 4);
  await until("the next write", () => batch.written.length > 1);
  expect(batch.written[1]).toEqual([4]);
});

test("createBatch: flush() writes at once, no more than batchSize items in one call", async () => {
  const batch = open({ batchSize: 2, intervalMs: 60_000 });
  for (const i of [1, 2, 3, 4, 5]) batch.set(`${i}`, i);
  await batch.flush();
  expect(batch.written).toEqual([[1, 2], [3, 4], [5]]);
  await batch.flush();
  expect(batch.written).toHaveLength(3);
});

test("createBatch: keeps items whose write failed unless newer ones exist, logs once and retries", async () => {
  const batch = open();
  batch.failing = true;
  batch.set("a", 1);
  batch.set("b", 2);
  await batch.flush();
  batch.set("a", 3);
  await batch.flush();
  batch.failing = false;
  await until("the retry", () => batch.written.length > 0);
  expect(batch.written).toEqual([[3, 2]]);
  expect(batch.lines).toHaveLength(1);
  expect(batch.lines[0]).toContain("batch not written, will retry");
});
