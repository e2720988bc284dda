import type { FastifyInstance } from "fastify";
import { Gauge, Histogram, Registry } from "prom-client";

/** Bounds in seconds, as the OpenTelemetry semantic conventions for HTTP advise. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
/** Status of a request whose client went away before its answer. */
const CLIENT_GONE = 499;

/** Measures every request by method, route and status, never by what clients choose freely. @returns where it is kept */
export function measureRequests(app: FastifyInstance): Registry {
  const registry = new Registry();
  const registers = [registry];
  const seconds = new Histogram({
    name: "http_server_request_duration_seconds",
    help: "Duration of HTTP requests, streams to their last event.",
    labelNames: ["http_request_method", "http_route", "http_response_status_code"] as const,
    buckets: SECONDS,
    registers,
  });
  const active = new Gauge({
    name: "http_server_active_requests",
    help: "Requests that are being answered, streams included.",
    registers,
  });
  app.addHook("onRequest", ({ method, routeOptions }, { raw }, done) => {
    const started = performance.now();
    active.inc();
    raw.on("close", () => {
      active.dec();
      const labels = {
        http_request_method: method,
        http_route: routeOptions.url ?? "",
        http_response_status_code: raw.headersSent ? raw.statusCode : CLIENT_GONE,
      };
      seconds.observe(labels, (performance.now() - started) / 1000);
    });
    done();
  });
  return registry;
}
