import type { Transport } from "@connectrpc/connect";
import type { FastifyInstance, FastifyReply } from "fastify";
import {
  Health,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from "../gen/health/v1/health_pb.ts";
import { version } from "../services/platform/process/version.ts";
import { LATENCY_MS } from "../services/platform/rpc/metadata.ts";
import type { Phase } from "./lifecycle.ts";

/** Timeout of one check, in ms. */
const CHECK_TIMEOUT_MS = 2_000;

type Part = "database" | "cache" | "mail" | "clock";
type Check = { status: "ok" | "down"; latencyMs: number };
/** `clock` is only present while the clock of the services differs from that of the database. */
type Checks = Record<Exclude<Part, "clock">, Check> & { clock?: Check };

/** Whether the path of a route belongs to a health check. */
export const isHealthPath = (path: string) => /^\/health(?:\/|$)/.test(path);

/**
 * Adds the health routes. The gateway itself has no dependencies; it checks those of the services
 * with the gRPC health protocol.
 */
export function addHealth(app: FastifyInstance, transport: Transport, phase: () => Phase): void {
  const check = createChecks(transport);
  const checkAll = async () => {
    const [database, cache, mail, clock] = await Promise.all([
      check("database"),
      check("cache"),
      check("mail"),
      check("clock"),
    ]);
    const checks: Checks = { database, cache, mail, ...(clock.status === "down" && { clock }) };
    return { status: overall(checks), checks };
  };
  app.get("/health", async (_request, reply) => {
    const { status, checks } = await checkAll();
    return send(reply, { status, version, uptime: Math.floor(process.uptime()), checks });
  });
  app.get("/health/live", async (_request, reply) => send(reply, { status: "ok" }));
  app.get("/health/ready", async (_request, reply) => {
    const now = phase();
    return send(reply, now === "serving" ? await checkAll() : { status: "down", phase: now });
  });
  for (const part of ["database", "cache"] as const) {
    app.get(`/health/${part}`, async (_request, reply) => send(reply, await check(part)));
  }
}

/**
 * The service is down without its database, and degraded without another dependency or while its
 * clock differs from the database's.
 */
function overall(checks: Checks): "ok" | "degraded" | "down" {
  if (checks.database.status === "down") return "down";
  return Object.values(checks).some(({ status }) => status === "down") ? "degraded" : "ok";
}

const send = (reply: FastifyReply, body: { status: string; [name: string]: unknown }) =>
  reply.code(body.status === "down" ? 503 : 200).send(body);

/** Checks one dependency. Concurrent callers share a check, since the route has no rate limit. */
function createChecks(transport: Transport): (part: Part) => Promise<Check> {
  const { check } = Health.method;
  const pending = new Map<Part, Promise<Check>>();
  const ask = async (service: Part): Promise<Check> => {
    const started = performance.now();
    const call = transport.unary(
      check,
      AbortSignal.timeout(CHECK_TIMEOUT_MS),
      undefined,
      undefined,
      { service },
    );
    const answer = await call.catch(() => undefined); // unreachable services count as down
    const latencyMs = Number(answer?.header.get(LATENCY_MS) ?? performance.now() - started);
    const status = answer?.message.status;
    // Services that are unreachable, or of the previous release, do not report on their clock.
    const isDown =
      service === "clock" ? status === ServingStatus.NOT_SERVING : status !== ServingStatus.SERVING;
    return { status: isDown ? "down" : "ok", latencyMs: Math.round(latencyMs * 10) / 10 };
  };
  return (part) => {
    const shared = pending.get(part) ?? ask(part).finally(() => pending.delete(part));
    pending.set(part, shared);
    return shared;
  };
}
