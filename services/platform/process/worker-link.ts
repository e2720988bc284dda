import cluster from "node:cluster";
import type { MetricObjectWithValues, MetricValue, Registry } from "prom-client";
import type { Config } from "../config/config.ts";
import { withProcessMetrics } from "../telemetry/metrics-server.ts";
import type { Slots } from "./slots.ts";

/** The metrics of one process, as prom-client aggregates them. */
export type MetricsOfProcess = MetricObjectWithValues<MetricValue<string>>[];

/** What a worker serves: its addresses, and whether the web app is at that of REST. */
export type Served = { rest?: string; grpc?: string | undefined; hasWeb?: boolean };

/** What a worker tells the process that started it. */
export type FromWorker =
  | { kind: "ready"; served: Served }
  | { kind: "request-slot" }
  | { kind: "release-slot" }
  | { kind: "metrics"; id: number; metrics: MetricsOfProcess };

/** What a worker is told. */
export type ToWorker = { kind: "slot-granted" } | { kind: "read-metrics"; id: number };

/** Opens the link of a worker to the process that started it. Undefined in a process that is none. */
export function openWorkerLink() {
  if (!cluster.worker) return undefined;
  const tell = (message: FromWorker) => process.send?.(message, undefined, undefined, () => {}); // without its parent a worker ends
  const grants: (() => void)[] = [];
  let registry: Registry | undefined;
  process.on("message", async (message: ToWorker) => {
    if (message.kind === "slot-granted") grants.shift()?.();
    else if (registry) {
      const metrics = (await registry.getMetricsAsJSON()).map(withoutNaN);
      tell({ kind: "metrics", id: message.id, metrics });
    }
  });
  const hashSlots: Slots = {
    request(onGranted) {
      grants.push(onGranted);
      tell({ kind: "request-slot" });
    },
    release: () => void tell({ kind: "release-slot" }),
  };
  return {
    /** Number of the worker. A replacement has a new one. */
    worker: cluster.worker.id,
    /** Slots for hashes. All workers share one per core. */
    hashSlots,
    /** Lets the parent read metrics, unless they are disabled. */
    shareMetrics(config: Pick<Config, "metricsPort">, registries: Registry[]): undefined {
      if (config.metricsPort !== 0) registry = withProcessMetrics(registries);
    },
    /** Reports that the worker serves. */
    announce: (served: Served) => void tell({ kind: "ready", served }),
  };
}

/** Without values that could not be computed: they would spoil those of the other workers. */
const withoutNaN = (metric: MetricsOfProcess[number]): MetricsOfProcess[number] => ({
  ...metric,
  values: metric.values.filter(({ value }) => !Number.isNaN(value)),
});
