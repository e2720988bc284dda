import { setTimeout as wait } from "node:timers/promises";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import { type Health, HealthCheckResponse_ServingStatus as Status } from "../../gen/health/v1/health_pb.ts";
import { LATENCY_MS } from "../platform/client.ts";
import { services } from "../platform/policy.ts";

/** Timeout of the check of a dependency, in ms. */
const CHECK_TIMEOUT_MS = 1_500;
/** A result is reused for this time, in ms: the method is public and has no rate limit. */
const CHECK_MS = 100;
/** Interval between checks of the mail server, in ms: each is an SMTP session. Shorter while it is unavailable. */
const MAIL_CHECK_MS = 5_000;
const MAIL_AWAY_CHECK_MS = 1_000;
/** Poll interval of a watch, in ms. */
const WATCH_MS = 1_000;
/** A watch ends after this, in ms, and its client asks for another. */
const MAX_WATCH_MS = 10 * 60_000;

/** The names that follow the database: the process (""), and each service. */
const served = new Set<string>(["", ...services.map(({ typeName }) => typeName)]);

/** Resolves if a dependency works; rejects otherwise. */
export type Check = () => Promise<void>;

/** The dependencies that are checked. */
export type Parts = { database: Check; cache: Check; mail: Check };

/** The checks of the dependencies, each shared by concurrent callers. */
export type HealthChecks = Record<keyof Parts, Measure>;

export function healthChecks(parts: Parts): HealthChecks {
  return {
    database: remembered(timed(parts.database), CHECK_MS),
    cache: remembered(timed(parts.cache), CHECK_MS),
    mail: remembered(timed(parts.mail), MAIL_CHECK_MS, MAIL_AWAY_CHECK_MS),
  };
}

/**
 * grpc.health.v1 for the process (""), each service, and each dependency ("database", "cache", "mail"). Requests can be
 * served without cache and mail, so the process follows the database. `x-gatehouse-latency-ms` is the duration of a check.
 */
export function healthHandler(dependencies: HealthChecks, isDraining: () => boolean): ServiceImpl<typeof Health> {
  const checks = new Map(Object.entries(dependencies));
  const measure = async (name: string) => {
    const isServed = served.has(name);
    const check = isServed ? dependencies.database : checks.get(name);
    if (!check) return undefined;
    const { serves, latencyMs } = await check();
    return { status: serves && !(isServed && isDraining()) ? Status.SERVING : Status.NOT_SERVING, latencyMs };
  };
  return {
    async check({ service }, ctx) {
      const measured = await measure(service);
      if (!measured) throw new ConnectError("No such part.", Code.NotFound);
      ctx.responseHeader.set(LATENCY_MS, measured.latencyMs.toFixed(2));
      return { status: measured.status };
    },
    async list() {
      const names = [...served, ...checks.keys()];
      const statuses = await Promise.all(
        names.map(async (name) => [name, { status: (await measure(name))?.status ?? 0 }] as const),
      );
      return { statuses: Object.fromEntries(statuses) };
    },
    async *watch({ service }, ctx) {
      const end = performance.now() + MAX_WATCH_MS;
      for (let last: number | undefined; !ctx.signal.aborted && performance.now() < end; ) {
        const isLast = isDraining(); // an open watch would delay the shutdown
        const status = (await measure(service))?.status ?? Status.SERVICE_UNKNOWN;
        if (status !== last) yield { status };
        if (isLast) return;
        last = status;
        await wait(WATCH_MS, undefined, { signal: ctx.signal }).catch(() => {});
      }
    },
  };
}

/** Whether a dependency works, and how long the check took. */
type Measure = () => Promise<{ serves: boolean; latencyMs: number }>;

function timed(check: Check): Measure {
  return async () => {
    const started = performance.now();
    const deadline = wait(CHECK_TIMEOUT_MS, false, { ref: false });
    const outcome = check().then(
      () => true,
      () => false,
    );
    return { serves: await Promise.race([outcome, deadline]), latencyMs: performance.now() - started };
  };
}

/** Shares one check among concurrent callers, and reuses its result for a while. */
function remembered(measure: Measure, servingMs: number, awayMs = servingMs): Measure {
  let last: { until: number; outcome: ReturnType<Measure> } | undefined;
  return () => {
    if (last && performance.now() < last.until) return last.outcome;
    const present = { until: Number.POSITIVE_INFINITY, outcome: measure() };
    last = present;
    return present.outcome.then((measured) => {
      present.until = performance.now() + (measured.serves ? servingMs : awayMs);
      return measured;
    });
  };
}
