import type { ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import { Gauge, Histogram, Registry } from "prom-client";
import { CLIENT_CLOSED_REQUEST } from "../../services/platform/errors.ts";
import type { Tracing } from "../../services/platform/tracing.ts";

/** Starts the span of a request, as a child of the span in its `traceparent` header. */
export type StartSpan = Tracing["start"];

declare module "fastify" {
  interface FastifyRequest {
    /** By `performance.now()`. */
    startedAt: number;
    /** Undefined unless traces are exported. */
    span: ReturnType<StartSpan> | undefined;
  }
}

/** Measures, traces and logs each request from its arrival to the end of its response. */
export type Instrumentation = {
  registry: Registry;
  /** The latest response of each connection. */
  responses: WeakMap<Duplex, ServerResponse>;
  start(request: FastifyRequest, reply: FastifyReply): void;
  end(request: FastifyRequest, reply: FastifyReply): void;
};

/** Bucket bounds in seconds, from the OpenTelemetry semantic conventions for HTTP. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

/** Logs one line per request, never a body, token, cookie or query value. No label has a value that clients can choose. */
export function instrumentRequests(log: Logger, startSpan: StartSpan | undefined): Instrumentation {
  const registry = new Registry();
  const seconds = new Histogram({
    name: "http_server_request_duration_seconds",
    help: "Duration of HTTP requests, streams to their last event.",
    labelNames: ["http_request_method", "http_route", "http_response_status_code"] as const,
    buckets: SECONDS,
    registers: [registry],
  });
  const active = new Gauge({
    name: "http_server_active_requests",
    help: "Requests that are being answered, streams included.",
    registers: [registry],
  });
  const responses: Instrumentation["responses"] = new WeakMap();
  return {
    registry,
    responses,
    start(request, { raw }) {
      request.startedAt = performance.now();
      request.span = startSpan && spanOf(request, startSpan);
      responses.set(request.raw.socket, raw);
      active.inc();
    },
    end(request, { raw }) {
      const ms = performance.now() - request.startedAt;
      const { id: requestId, method, routeOptions, span } = request;
      const route = routeOptions.url;
      const status = raw.headersSent ? raw.statusCode : CLIENT_CLOSED_REQUEST;
      active.dec();
      const labels = { http_request_method: method, http_route: route ?? "", http_response_status_code: status };
      seconds.observe(labels, ms / 1000);
      span?.end({ "http.response.status_code": status }, status >= 500 ? String(status) : undefined);
      const clientGone = raw.writableFinished ? undefined : true;
      log.info({ requestId, method, route, status, ms: Math.round(ms * 10) / 10, clientGone });
    },
  };
}

/** Starts the span of a request, named by its route. */
function spanOf({ method, headers, routeOptions: { url } }: FastifyRequest, start: StartSpan) {
  const parent = typeof headers.traceparent === "string" ? headers.traceparent : undefined;
  const attributes = { "http.request.method": method, ...(url && { "http.route": url }) };
  return start([method, url].filter(Boolean).join(" "), "SERVER", parent, attributes);
}
