import cluster from "node:cluster";
import type { MetricObjectWithValues, MetricValue, Registry } from "prom-client";
import type { Config } from "../config/config.ts";
import { withProcessMetrics } from "../telemetry/metrics-server.ts";
import type { Slots } from "./slots.ts";

/** The metrics of one process, as prom-client aggregates them. */
export type MetricsOfProcess = MetricObjectWithValues<MetricValue<string>>[];

/** What a worker serves: its addresses, and whether the REST address also serves the web app. */
export type Served = { rest?: string; grpc?: string | undefined; hasWeb?: boolean };

/** Messages from a worker to its parent process. */
export type FromWorker =
  | { kind: "ready"; served: Served }
  | { kind: "request-slot" }
  | { kind: "release-slot" }
  | { kind: "metrics"; id: number; metrics: MetricsOfProcess };

/** Messages from the parent process to a worker. */
export type ToWorker = { kind: "slot-granted" } | { kind: "read-metrics"; id: number };

/**
 * Opens the link of a worker to its parent process. Undefined in a process that is not a worker.
 */
export function openWorkerLink() {
  if (!cluster.worker) return undefined;
  const tell = (message: FromWorker) => process.send?.(message, undefined, undefined, () => {}); // a worker ends without its parent
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
    /** Number of the worker. Its replacement has another number. */
    worker: cluster.worker.id,
    /** Slots for password hashes. All workers share one per core. */
    hashSlots,
    /** Lets the parent process read metrics, unless they are disabled. */
    shareMetrics(config: Pick<Config, "metricsPort">, registries: Registry[]): undefined {
      if (config.metricsPort !== 0) registry = withProcessMetrics(registries);
    },
    /** Reports that the worker serves. */
    announce: (served: Served) => void tell({ kind: "ready", served }),
  };
}

/** Removes values that could not be computed, which would make sums across workers NaN. */
const withoutNaN = (metric: MetricsOfProcess[number]): MetricsOfProcess[number] => ({
  ...metric,
  values: metric.values.filter(({ value }) => !Number.isNaN(value)),
});
