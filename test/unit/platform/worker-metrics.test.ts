import { Counter, Gauge, Registry } from "prom-client";
import { expect, test } from "vitest";
import type { MetricsOfProcess } from "../../../services/platform/process/worker-link.ts";
import { createWorkerMetrics } from "../../../services/platform/telemetry/worker-metrics.ts";

/** A worker that has counted something, and sees the same queue as all others. */
function workerWith(calls: number, queue: number) {
  const registers = [new Registry()];
  const counter = new Counter({ name: "calls_total", help: "Calls.", registers });
  counter.inc(calls);
  new Gauge({ name: "queue", help: "Queue.", registers, aggregator: "max" }).set(queue);
  new Gauge({ name: "open", help: "Open.", registers }).set(1);
  return { counter, registry: registers[0] as Registry, answers: true };
}

/** Metrics of workers that answer at once, or never. */
function metricsOf() {
  const metrics = createWorkerMetrics<ReturnType<typeof workerWith>>(
    new Registry(),
    async (worker, id) => {
      if (!worker.answers) return;
      const sent: MetricsOfProcess = structuredClone(await worker.registry.getMetricsAsJSON());
      metrics.receive(id, sent);
    },
  );
  return metrics;
}

const valuesOf = async (registry: Registry) =>
  Object.fromEntries(
    (await registry.getMetricsAsJSON()).map(({ name, values }) => [name, values[0]?.value]),
  );

test("Metrics of workers: counts are added, and of shared values the largest is shown", async () => {
  const registry = await metricsOf().collect([workerWith(3, 5), workerWith(4, 6)]);
  expect(await valuesOf(registry)).toEqual({ calls_total: 7, queue: 6, open: 2 });
});

test("Metrics of workers: the counts of an ended one stay, its gauges do not", async () => {
  const metrics = metricsOf();
  const [first, second] = [workerWith(3, 9), workerWith(4, 6)];
  await metrics.collect([first, second]);
  metrics.remove(first);
  expect(await valuesOf(await metrics.collect([second]))).toEqual({
    calls_total: 7,
    queue: 6,
    open: 1,
  });
  metrics.remove(second);
  expect(await valuesOf(await metrics.collect([]))).toEqual({ calls_total: 7 });
});

test("Metrics of workers: an unresponsive one is shown with its last values", async () => {
  const metrics = metricsOf();
  const [first, second] = [workerWith(3, 5), workerWith(4, 6)];
  await metrics.collect([first, second]);
  first.answers = false;
  for (const { counter } of [first, second]) counter.inc();
  const shown = await valuesOf(await metrics.collect([first, second]));
  expect(shown).toEqual({ calls_total: 8, queue: 6, open: 2 });
});
