import { Gauge, Histogram, Registry } from "prom-client";

/** Bucket bounds in seconds, from the OpenTelemetry semantic conventions for HTTP. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

/** Metrics of requests. */
export type RequestMetrics = {
  registry: Registry;
  began(): void;
  ended(method: string, route: string, status: number, ms: number): void;
};

/** Measures requests by method, route and status. No label has a value that clients can choose freely. */
export function createRequestMetrics(): RequestMetrics {
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
  return {
    registry,
    began: () => active.inc(),
    ended(method, route, status, ms) {
      active.dec();
      const labels = { http_request_method: method, http_route: route, http_response_status_code: status };
      seconds.observe(labels, ms / 1000);
    },
  };
}
