import { AggregatorRegistry, type Registry } from "prom-client";
import type { MetricsOfProcess } from "../process/worker-link.ts";

/** How long a worker may take to report its metrics, in ms. */
const REPLY_TIMEOUT_MS = 2_500;

/** Aggregators for metrics of Node whose sum or mean would be misleading. */
const AGGREGATORS: [RegExp, string][] = [
  [/^nodejs_eventloop_lag/, "max"],
  [/^process_start_time_seconds$/, "min"],
];

/**
 * Combines the metrics of several workers into those of one process. The last counts of workers
 * that have ended stay in the sum, because Prometheus interprets a falling count as a restart.
 * @param ask requests the metrics of a worker, which are then passed to `receive`
 * @param own the metrics of this process
 */
export function createWorkerMetrics<Worker>(
  own: Registry,
  ask: (worker: Worker, id: number) => void,
) {
  const latest = new Map<Worker, MetricsOfProcess>();
  const pending = new Map<number, (metrics: MetricsOfProcess | undefined) => void>();
  let ended = Promise.resolve<MetricsOfProcess>([]);
  let lastId = 0;

  /** Reads the metrics of a worker. Returns the latest known ones if it does not reply. */
  async function read(worker: Worker): Promise<MetricsOfProcess> {
    const known = latest.get(worker) ?? [];
    const id = ++lastId;
    const reply = Promise.withResolvers<MetricsOfProcess | undefined>();
    const timer = setTimeout(reply.resolve, REPLY_TIMEOUT_MS, undefined);
    pending.set(id, reply.resolve);
    ask(worker, id);
    const metrics = await reply.promise;
    clearTimeout(timer);
    pending.delete(id);
    if (metrics) latest.set(worker, metrics);
    return metrics ?? known;
  }

  return {
    receive: (id: number, metrics: MetricsOfProcess): void => pending.get(id)?.(metrics),
    /** Keeps the counts of a worker that has ended. */
    remove(worker: Worker): void {
      const counts = (latest.get(worker) ?? []).filter(isCount);
      latest.delete(worker);
      ended = ended.then((earlier) => aggregate([earlier, counts]).getMetricsAsJSON());
    },
    /** Reads the metrics of all given workers. */
    async collect(workers: Iterable<Worker>): Promise<Registry> {
      const all = [...workers].map(read); // together with `ended`, so that no worker counts twice
      return aggregate(await Promise.all([own.getMetricsAsJSON(), ...all, ended]));
    },
  };
}

const isCount = ({ type }: MetricsOfProcess[number]) =>
  String(type) === "counter" || String(type) === "histogram";

function aggregate(all: MetricsOfProcess[]): Registry {
  const named = all.map((metrics) =>
    metrics.map((metric) => {
      const [, aggregator] = AGGREGATORS.find(([name]) => name.test(metric.name)) ?? [];
      return aggregator ? { ...metric, aggregator } : metric;
    }),
  );
  return AggregatorRegistry.aggregate(named);
}
