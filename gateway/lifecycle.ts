import { EventEmitter, once } from "node:events";
import type { ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import { Gauge, Histogram, Registry } from "prom-client";
import type { Config } from "../services/platform/config/config.ts";
import { loggedCaller } from "../services/platform/gate/authenticate.ts";
import { openCallOf } from "../services/platform/gate/open-calls.ts";
import { OpenList } from "../services/platform/process/open-list.ts";
import { closeWithin } from "../services/platform/process/shutdown.ts";
import { CALL_ENDED, CLIENT_CLOSED_REQUEST } from "../services/platform/rpc/errors.ts";
import { createLineLimit } from "../services/platform/telemetry/log.ts";
import type { Tracing } from "../services/platform/telemetry/tracing.ts";

/** The state of a gateway. */
export type Phase = "starting" | "serving" | "draining";

/** Starts the span of a request, as a child of the span in its `traceparent` header. */
export type StartSpan = Tracing["start"];

declare module "fastify" {
  interface FastifyRequest {
    /** Start of the request, by `performance.now()`. */
    startedAt: number;
    /** Undefined unless traces are exported. */
    span: ReturnType<StartSpan> | undefined;
    /** Code of the error that was returned, for the log line. */
    failure: string | undefined;
    /**
     * Aborts the request's call: at shutdown, and when its response or its client's connection has
     * ended.
     */
    call: AbortController;
  }
}

/** `logged`: the requests to log, see `LOG_REQUESTS`. */
type LifecycleOptions = {
  startSpan?: StartSpan | undefined;
  logged?: Config["logRequests"];
};

/** See {@link createLifecycle}. */
export type Lifecycle = ReturnType<typeof createLifecycle>;

/** Bucket bounds in seconds, from the OpenTelemetry semantic conventions for HTTP. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

/**
 * Manages startup and shutdown of a gateway and its open requests: their calls, metrics, spans and
 * log lines. Logs one line per request, with the caller, the address and any error code, but never
 * a body, token, cookie or query value. Lines about requests rejected before admission are limited;
 * the rest are logged as a count. No metric has a label that clients can choose.
 * @param graceMs grace period for open requests and streams, in ms
 */
export function createLifecycle(
  graceMs: number,
  log: Logger,
  { startSpan, logged = "all" }: LifecycleOptions,
) {
  const metrics = new Registry();
  const seconds = new Histogram({
    name: "http_server_request_duration_seconds",
    help: "Duration of HTTP requests; for streams, until the last event.",
    labelNames: ["http_request_method", "http_route", "http_response_status_code"] as const,
    buckets: SECONDS,
    registers: [metrics],
  });
  const active = new Gauge({
    name: "http_server_active_requests",
    help: "Number of requests in progress, including streams.",
    registers: [metrics],
  });
  const responses = new WeakMap<Duplex, ServerResponse>();
  let phase: Phase = "starting";
  const calls = new OpenList<AbortController>();
  const events = new EventEmitter();
  const mayLogRefusal = createLineLimit(log);
  const mayLog = ({ permit }: FastifyRequest) => permit !== undefined || mayLogRefusal();
  return {
    metrics,
    phase: () => phase,
    /** Whether one more line about a rejected request may be logged. */
    mayLogRefusal,
    /** Begins a request: counts it as open and starts its span. */
    begin(request: FastifyRequest, { raw }: FastifyReply): void {
      request.startedAt = performance.now();
      request.span = startSpan && spanOf(request, startSpan);
      request.call = new AbortController();
      responses.set(request.raw.socket, raw);
      calls.add(request.call);
      active.inc();
    },
    /**
     * Ends a request and its call once the response has ended or the client has disconnected.
     * Measures and logs the request.
     */
    end(request: FastifyRequest, { raw }: FastifyReply): void {
      const clientGone = raw.writableFinished ? undefined : true;
      if (request.routeOptions.config?.binding) request.call.abort(CALL_ENDED); // other requests make no call
      calls.delete(request.call);
      if (calls.size === 0) events.emit("idle");
      active.dec();
      const ms = performance.now() - request.startedAt;
      const { id: requestId, method, routeOptions, span, failure: code } = request;
      const route = routeOptions.url;
      const status = raw.headersSent ? raw.statusCode : CLIENT_CLOSED_REQUEST;
      const labels = {
        http_request_method: method,
        http_route: route ?? "",
        http_response_status_code: status,
      };
      seconds.observe(labels, ms / 1000);
      span?.end(
        { "http.response.status_code": status },
        status >= 500 ? String(status) : undefined,
      );
      if (!isLogged(request, status, logged) || !mayLog(request)) return;
      const { address } = openCallOf(request.raw);
      const caller = loggedCaller(request.admitted?.credential);
      const duration = { ms: Math.round(ms * 10) / 10, clientGone };
      log.info({ requestId, method, route, status, code, address, ...caller, ...duration });
    },
    /** The latest response of a connection. */
    responseOf: (connection: Duplex) => responses.get(connection),
    /**
     * Opens the port.
     * @returns the URL for clients, such as http://127.0.0.1:3000
     */
    async listen(app: FastifyInstance, address: { host: string; port: number }): Promise<string> {
      const url = await app.listen(address);
      phase = "serving";
      return url;
    },
    /**
     * Rejects new requests, and closes the port once open ones have finished. Aborted requests get
     * 503 or an error event.
     */
    async drain(app: FastifyInstance): Promise<void> {
      phase = "draining";
      const idle = calls.size > 0 ? once(events, "idle") : Promise.resolve();
      await closeWithin(idle, graceMs, calls, () => events.emit("idle"));
      await app.close();
    },
  };
}

/** Whether a request is logged. */
function isLogged(request: FastifyRequest, status: number, logged: Config["logRequests"]): boolean {
  if (logged === "all" || status >= 400) return true;
  return logged === "api" && request.routeOptions.config?.binding !== undefined;
}

/** Starts the span of a request, named after its route. */
function spanOf({ method, headers, routeOptions: { url } }: FastifyRequest, start: StartSpan) {
  const parent = typeof headers.traceparent === "string" ? headers.traceparent : undefined;
  const attributes = { "http.request.method": method, ...(url && { "http.route": url }) };
  return start([method, url].filter(Boolean).join(" "), "SERVER", parent, attributes);
}
