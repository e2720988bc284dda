import { setTimeout as wait } from "node:timers/promises";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import { type Health, HealthCheckResponse_ServingStatus as Status } from "../gen/health/v1/health_pb.ts";

/** Longest a dependency may take to answer, in ms. */
const CHECK_TIMEOUT_MS = 1_500;
/** A mail server is asked at most this often, in ms: each time costs a conversation. */
const MAIL_CHECK_MS = 10_000;
/** How often a watcher looks, in ms. */
const WATCH_MS = 1_000;

/** Resolves when a part serves; rejects when it does not. */
export type Check = () => Promise<void>;

/** The parts that health is told of. */
export type Parts = { database: Check; cache: Check; mail: Check };

/**
 * grpc.health.v1 for the whole ("") and for each part ("database", "cache", "mail"). Requests can be served without
 * cache and mail, so the whole follows the database alone. `x-gatehouse-latency-ms` tells what a check took.
 */
export function healthHandler(parts: Parts, isDraining: () => boolean): ServiceImpl<typeof Health> {
  const checks: Record<string, Check> = { ...parts, mail: remembered(parts.mail), "": parts.database };
  const statusOf = async (name: string) => {
    const check = checks[name] ?? (name.startsWith("gatehouse.") ? parts.database : undefined);
    if (!check) return undefined;
    if (isDraining() && (name === "" || name.startsWith("gatehouse."))) return Status.NOT_SERVING;
    return (await succeeds(check)) ? Status.SERVING : Status.NOT_SERVING;
  };
  return {
    async check({ service }, ctx) {
      const started = performance.now();
      const status = await statusOf(service);
      if (status === undefined) throw new ConnectError("No such part.", Code.NotFound);
      ctx.responseHeader.set("x-gatehouse-latency-ms", (performance.now() - started).toFixed(2));
      return { status };
    },
    async list() {
      const names = ["", ...Object.keys(parts)];
      const statuses = await Promise.all(names.map(async (name) => [name, { status: await statusOf(name) }] as const));
      return { statuses: Object.fromEntries(statuses.map(([name, { status }]) => [name, { status: status ?? 0 }])) };
    },
    async *watch({ service }, ctx) {
      for (let last: number | undefined; !ctx.signal.aborted; ) {
        const status = (await statusOf(service)) ?? Status.SERVICE_UNKNOWN;
        if (status !== last) yield { status };
        last = status;
        await wait(WATCH_MS, undefined, { signal: ctx.signal }).catch(() => {});
      }
    },
  };
}

async function succeeds(check: Check): Promise<boolean> {
  const controller = new AbortController();
  const deadline = wait(CHECK_TIMEOUT_MS, false, { signal: controller.signal }).catch(() => false);
  const outcome = check().then(
    () => true,
    () => false,
  );
  return Promise.race([outcome, deadline]).finally(() => controller.abort());
}

function remembered(check: Check): Check {
  let last: { at: number; outcome: Promise<void> } | undefined;
  return () => {
    if (!last || performance.now() - last.at > MAIL_CHECK_MS) last = { at: performance.now(), outcome: check() };
    return last.outcome;
  };
}
