import cluster, { type Worker } from "node:cluster";
import { availableParallelism } from "node:os";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { Counter, Gauge, Registry } from "prom-client";
import type { Config } from "../config/config.ts";
import { startMetrics, withProcessMetrics } from "../telemetry/metrics-server.ts";
import { createWorkerMetrics } from "../telemetry/worker-metrics.ts";
import { memoryBytes, workerOptions } from "./node.ts";
import { CLOSE_TIMEOUT_MS, shutdownOnSignal } from "./shutdown.ts";
import { createSlotPool, type Slots } from "./slots.ts";
import { refuseStart } from "./start.ts";
import type { FromWorker, Served, ToWorker } from "./worker-link.ts";

/** Delay before the first replacement of a worker, in ms. Doubles with each further replacement. */
const REPLACE_DELAY_MS = 100;
/** Lifetime below which a worker counts towards a crash loop, in ms. */
const SHORT_LIFE_MS = 60_000;
/** Number of consecutive short-lived workers in one place after which the process ends. */
const MAX_SHORT_LIVES = 5;
/** Memory that each worker needs, in MiB. */
const MIN_MEMORY_MIB = 256;
/** Time after its own time limits until a worker that has not ended is killed, in ms. */
const KILL_DELAY_MS = 3_000;
const MIB = 1024 * 1024;

/** How a worker ended: with an exit code, or by a signal. */
type End = { worker: number; code?: number | undefined; signal?: string | undefined };

/**
 * Starts the workers and replaces those that end, until this process gets SIGTERM or SIGINT. The
 * first worker starts alone, so that an invalid setting is reported only once.
 * @param onReady called once, when the first worker is serving
 */
export async function runWorkers(
  config: Config,
  log: Logger,
  onReady: (served: Served) => void,
): Promise<void> {
  requireMemory(config.workers);
  const pool = createWorkerPool(log);
  const closing = new AbortController();
  let hasFailed = false;

  /** Keeps one worker running. Resolves when the process ends. */
  async function keepWorker(): Promise<void> {
    for (let shortLives = 0; !closing.signal.aborted; ) {
      const startedAt = performance.now();
      const end = await pool.runWorker();
      if (closing.signal.aborted) return;
      if (!pool.hasServed()) exitLike(end);
      shortLives = performance.now() - startedAt < SHORT_LIFE_MS ? shortLives + 1 : 0;
      if (shortLives >= MAX_SHORT_LIVES) return endCrashLoop(end);
      log.error(end, "worker ended, another one starts");
      const delayMs = REPLACE_DELAY_MS * 2 ** shortLives;
      await wait(delayMs, undefined, { signal: closing.signal }).catch(() => {}); // the process ends
    }
  }

  async function endCrashLoop(end: End): Promise<void> {
    log.fatal(end, `the process ends: ${MAX_SHORT_LIVES} workers in a row ended after their start`);
    await drain();
    process.exit(1);
  }

  /** Ends all workers. Resolves once they have ended. */
  async function drain(): Promise<void> {
    closing.abort();
    const killAfterMs = config.shutdownTimeoutMs + CLOSE_TIMEOUT_MS + KILL_DELAY_MS;
    const ends = await pool.drain(killAfterMs);
    hasFailed = ends.some(({ code, signal }) => code !== 0 && signal !== "SIGTERM"); // while it started
  }

  const metrics = await startMetrics(config, () => pool.collectMetrics);
  shutdownOnSignal(drain, async () => {
    await metrics?.close();
    if (hasFailed) process.exit(1);
  });
  cluster.schedulingPolicy = cluster.SCHED_RR;
  cluster.setupPrimary({ execArgv: workerOptions(config.workers) });
  void keepWorker();
  onReady(await pool.ready);
  for (let started = 1; started < config.workers; started++) void keepWorker();
}

/** Creates the pool of workers, with the slots and metrics that they share. */
function createWorkerPool(log: Logger) {
  const running = new Map<Worker, Promise<End>>();
  const serving = new Set<Worker>();
  const ready = Promise.withResolvers<Served>();
  let hasServed = false;
  const slots = createSlotPool<Worker>(availableParallelism());
  const { registry, ends } = createMetricsOfPool(serving);
  const metrics = createWorkerMetrics<Worker>(registry, (worker, id) =>
    tell(worker, { kind: "read-metrics", id }),
  );

  /** @param own the slots of the worker */
  function receive(worker: Worker, own: Slots, message: FromWorker): void {
    if (message.kind === "request-slot") own.request(() => tell(worker, { kind: "slot-granted" }));
    else if (message.kind === "release-slot") own.release();
    else if (message.kind === "metrics") metrics.receive(message.id, message.metrics);
    else {
      log.info({ worker: worker.id, pid: worker.process.pid }, "worker serves");
      serving.add(worker);
      hasServed = true;
      ready.resolve(message.served);
    }
  }

  return {
    /** Resolves with what the first worker serves, once it is serving. */
    ready: ready.promise,
    /** Whether any worker has ever served. */
    hasServed: () => hasServed,
    /** Starts a worker. Resolves once it has ended. */
    async runWorker(): Promise<End> {
      const worker = cluster.fork();
      const own = slots.add(worker);
      worker.on("message", (message: FromWorker) => receive(worker, own, message));
      const ended = endOf(worker);
      running.set(worker, ended);
      const end = await ended;
      running.delete(worker);
      serving.delete(worker);
      slots.remove(worker);
      metrics.remove(worker);
      ends.inc();
      return end;
    },
    /**
     * Ends all workers.
     * @param killAfterMs time after which those that have not ended are killed
     */
    async drain(killAfterMs: number): Promise<End[]> {
      const signal = (name: NodeJS.Signals) => {
        for (const worker of running.keys()) worker.process.kill(name);
      };
      const timer = setTimeout(signal, killAfterMs, "SIGKILL");
      signal("SIGTERM");
      const ends = await Promise.all(running.values());
      clearTimeout(timer);
      return ends;
    },
    /** The metrics of all workers, combined into those of one process. */
    collectMetrics: () => metrics.collect(serving),
  };
}

function endOf(worker: Worker): Promise<End> {
  return new Promise((resolve) => {
    worker.once("exit", (code, signal) =>
      resolve({ worker: worker.id, code: code ?? undefined, signal: signal ?? undefined }),
    );
    worker.on("error", () => {
      if (worker.process.pid === undefined) resolve({ worker: worker.id }); // it could not be started
    });
  });
}

function tell(worker: Worker, message: ToWorker): void {
  worker.send(message, () => {}); // it may have ended
}

/** Ends this process with the exit code of its first worker, which has reported the reason. */
function exitLike({ code, signal }: End): never {
  if (code) process.exit(code);
  return refuseStart([`the first worker ended before it served${signal ? `, by ${signal}` : ""}`]);
}

function requireMemory(workers: number): void {
  const mib = Math.floor(memoryBytes() / MIB);
  if (mib >= workers * MIN_MEMORY_MIB) return;
  refuseStart([
    `WORKERS must leave ${MIN_MEMORY_MIB} MiB of memory to each worker: ${mib} MiB are too few for ${workers}`,
  ]);
}

/** The metrics of the process that starts the workers. */
function createMetricsOfPool(serving: ReadonlySet<Worker>) {
  const registry = new Registry();
  const registers = [registry];
  new Gauge({
    name: "gatehouse_workers",
    help: "Number of workers that serve.",
    registers,
    collect() {
      this.set(serving.size);
    },
  });
  const ends = new Counter({
    name: "gatehouse_worker_ends_total",
    help: "Number of workers that have ended.",
    registers,
  });
  return { registry: withProcessMetrics([registry]), ends };
}
