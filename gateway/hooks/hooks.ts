import type { IncomingMessage } from "node:http";
import type { DescMethod } from "@bufbuild/protobuf";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { clientAddressOf } from "../../services/platform/client.ts";
import { CLIENT_CLOSED_REQUEST, ServiceError } from "../../services/platform/errors.ts";
import { addServerHooks, type RequestGate } from "../../services/platform/server-hooks.ts";
import { isHealthPath } from "../health.ts";
import type { Lifecycle } from "../lifecycle.ts";
import type { RequestMetrics } from "../metrics.ts";
import type { Responses } from "./client-error.ts";
import type { Origins } from "./cors.ts";

/** Dependencies of the hooks of every request. */
export type EdgeOptions = {
  log: Logger;
  origins: Origins;
  /** The result of `commonHeaders`. */
  headers: Record<string, string>;
  lifecycle: Pick<Lifecycle, "phase" | "enter" | "leave">;
  responses: Responses;
  /** Undefined in tests without authentication. */
  gate?: RequestGate | undefined;
  metrics: Pick<RequestMetrics, "began" | "ended">;
};

/** The rest of a body is read for this time after its response, in ms (nginx: lingering_close). */
const LINGER_MS = 2_000;

const HEADERS = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};
const SECURE_HEADERS = { ...HEADERS, "strict-transport-security": "max-age=31536000; includeSubDomains" };

/**
 * Headers of every response of the API. Pages replace the content security policy with their own.
 * @param secure whether clients reach the gateway over https
 */
export const commonHeaders = (secure: boolean): Record<string, string> => (secure ? SECURE_HEADERS : HEADERS);

/**
 * Adds the hook of every request: log line, common headers, CORS, unknown routes, and the checks of every port.
 */
export function addEdge(app: FastifyInstance, edge: EdgeOptions): void {
  const { origins, lifecycle } = edge;
  addServerHooks(app, {
    gate: edge.gate,
    isDraining: () => lifecycle.phase() === "draining",
    isProbe: ({ raw }) => isHealthPath(raw.url ?? ""),
    headOf(request) {
      const method = request.routeOptions.config.rpc;
      if (!method) return undefined;
      const { authorization } = request.headers;
      return { method, authorization, address: clientAddressOf(request), isForwarded: false };
    },
    onRequest(request, reply) {
      greet(request, reply, edge);
      checkHost(request.raw);
      if (request.method === "OPTIONS" && origins.preflight(request.headers, reply)) return;
      const { allow } = request.routeOptions.config;
      if (request.is404) throw new ServiceError(Reason.NOT_FOUND, "There is nothing at this address.");
      if (!allow) return;
      reply.header("allow", allow);
      throw new ServiceError(Reason.METHOD_NOT_ALLOWED, `This address takes ${allow}.`);
    },
  });
}

declare module "fastify" {
  interface FastifyContextConfig {
    /** The RPC of a route. */
    rpc?: DescMethod;
    /** On routes for methods that a path does not have: the methods that it has. */
    allow?: string;
  }
}

/** Adds what every response has, early errors included: common headers, CORS headers, metrics and a log line. */
export function greet(request: FastifyRequest, reply: FastifyReply, edge: EdgeOptions): void {
  const { origins, headers } = edge;
  follow(request, reply, edge);
  reply.headers(headers).header("x-request-id", request.id);
  origins.allow(request.headers, reply);
}

/** Logs one line and measures at the end of the response. Never logs a body, a token, a cookie or a query value. */
function follow(
  request: FastifyRequest,
  { raw }: FastifyReply,
  { log, lifecycle, metrics, responses }: EdgeOptions,
): void {
  const started = performance.now();
  lifecycle.enter();
  responses.set(request.raw.socket, raw);
  metrics.began();
  raw.on("close", () => {
    const ms = performance.now() - started;
    const { id: requestId, method } = request;
    const route = request.routeOptions.url;
    const status = raw.headersSent ? raw.statusCode : CLIENT_CLOSED_REQUEST;
    metrics.ended(method, route ?? "", status, ms);
    const clientGone = raw.writableFinished ? undefined : true;
    log.info({ requestId, method, route, status, ms: Math.round(ms * 10) / 10, clientGone });
    lifecycle.leave();
    if (!request.raw.complete) closeLingering(request.raw);
  });
}

/** Discards the rest of a body after an early response. Many clients read the response only once they have sent all. */
function closeLingering(request: IncomingMessage): void {
  if (request.socket.destroyed) return;
  const timer = setTimeout(() => request.complete || request.socket.destroy(), LINGER_MS);
  request.once("close", () => clearTimeout(timer));
  request.resume();
}

/** Requires exactly one Host header (RFC 9112 section 3.2): of two, a proxy and this process could use different ones. */
function checkHost({ rawHeaders, httpVersion }: IncomingMessage): void {
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (name.length === 4 && name.toLowerCase() === "host") hosts += 1;
  }
  if (hosts > 1 || (hosts === 0 && httpVersion !== "1.0")) {
    throw new ServiceError(Reason.MALFORMED_REQUEST, "The request must have one Host header.");
  }
}
