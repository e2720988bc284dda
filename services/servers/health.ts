import { setTimeout as wait } from "node:timers/promises";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import {
  type Health,
  HealthCheckResponse_ServingStatus as Status,
} from "../../gen/health/v1/health_pb.ts";
import { abortError } from "../platform/rpc/errors.ts";
import { LATENCY_MS } from "../platform/rpc/metadata.ts";
import { services } from "../platform/rpc/policy.ts";

/** Timeout of a dependency check, in ms. */
const CHECK_TIMEOUT_MS = 1_500;
/** Time for which a result is reused, in ms: the method is public and has no rate limit. */
const CHECK_MS = 100;
/**
 * Interval between checks of the mail server, in ms, since each is an SMTP session. Shorter while
 * it is unavailable.
 */
const MAIL_CHECK_MS = 5_000;
const MAIL_AWAY_CHECK_MS = 1_000;
/**
 * Polling interval of a watch, and the time after which it ends and the client has to start
 * another, in ms.
 */
const WATCH_MS = 1_000;
const MAX_WATCH_MS = 10 * 60_000;

/** Resolves if a dependency works, rejects otherwise. */
type Check = () => Promise<void>;

export type HealthChecks = ReturnType<typeof healthChecks>;

export const healthChecks = ({
  clock = async () => {},
  ...parts
}: {
  database: Check;
  cache: Check;
  mail: Check;
  clock?: Check;
}) => ({
  database: measured(parts.database, CHECK_MS),
  cache: measured(parts.cache, CHECK_MS),
  mail: measured(parts.mail, MAIL_CHECK_MS, MAIL_AWAY_CHECK_MS),
  clock: measured(clock, CHECK_MS),
});

/**
 * grpc.health.v1 for the process (""), each service, each dependency ("database", "cache", "mail"),
 * and the "clock", which serves while it agrees with the database's clock. Requests can be served
 * without cache and mail, so the process status follows the database.
 * The response header `x-gatehouse-latency-ms` is the duration of the check.
 */
export function healthHandler(
  dependencies: HealthChecks,
  isDraining: () => boolean,
): ServiceImpl<typeof Health> {
  const canServe = async () => {
    const { serves, latencyMs } = await dependencies.database();
    return { serves: serves && !isDraining(), latencyMs };
  };
  const served = ["", ...services.map(({ typeName }) => typeName)].map(
    (name) => [name, canServe] as const,
  );
  const checks = new Map([...served, ...Object.entries(dependencies)]);
  const measure = async (name: string) => {
    const measured = await checks.get(name)?.();
    return (
      measured && { ...measured, status: measured.serves ? Status.SERVING : Status.NOT_SERVING }
    );
  };
  return {
    async check({ service }, ctx) {
      const measured = await measure(service);
      if (!measured) throw new ConnectError("Unknown service.", Code.NotFound);
      ctx.responseHeader.set(LATENCY_MS, measured.latencyMs.toFixed(2));
      return { status: measured.status };
    },
    async list() {
      const measured = [...checks.keys()].map(
        async (name) => [name, (await measure(name)) ?? {}] as const,
      );
      return { statuses: Object.fromEntries(await Promise.all(measured)) };
    },
    async *watch({ service }, ctx) {
      const end = performance.now() + MAX_WATCH_MS;
      for (let last: number | undefined; !ctx.signal.aborted && performance.now() < end; ) {
        const isLast = isDraining(); // an open watch would delay shutdown
        const status = (await measure(service))?.status ?? Status.SERVICE_UNKNOWN;
        if (status !== last) yield { status };
        if (isLast) return;
        last = status;
        await wait(WATCH_MS, undefined, { signal: ctx.signal }).catch(() => {});
      }
      if (hasDeadlinePassed(ctx.signal)) throw abortError(ctx.signal);
    },
  };
}

const hasDeadlinePassed = ({ reason }: AbortSignal): boolean =>
  reason instanceof ConnectError && reason.code === Code.DeadlineExceeded;

/**
 * Checks whether a dependency works and measures the duration. Callers share a check and, for a
 * while, its result.
 */
function measured(check: Check, servingMs: number, awayMs = servingMs) {
  let last: ReturnType<typeof measure> | undefined;
  let until = 0;
  const measure = async () => {
    until = Number.POSITIVE_INFINITY;
    const started = performance.now();
    const works = check().then(() => true);
    const serves = await Promise.race([works, wait(CHECK_TIMEOUT_MS, false, { ref: false })]).catch(
      () => false,
    );
    const ended = performance.now();
    until = ended + (serves ? servingMs : awayMs);
    return { serves, latencyMs: ended - started };
  };
  return () => {
    if (!last || performance.now() >= until) last = measure();
    return last;
  };
}
