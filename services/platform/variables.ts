import { z } from "zod";
import {
  choice,
  host,
  isNetwork,
  isOrigin,
  isUrl,
  list,
  number,
  optional,
  port,
  servicesUrl,
  setting,
  timeLimit,
  toggle,
  URL_ENCODING_HINT,
  webUrl,
} from "./config-kinds.ts";

const text = z.string();

/** Variables of every process. */
export const commonVariables = {
  NODE_ENV: optional(
    text.refine((name) => name === "production" || !/^\s*production\s*$/i.test(name), "must be spelled production"),
    "`production` requires `SECRET_KEY` and `SMTP_URL`, and turns server reflection off.",
  ),
  LOG_LEVEL: setting(
    choice("trace", "debug", "info", "warn", "error", "fatal", "silent"),
    "info",
    "`fatal`, `error`, `warn`, `info`, `debug`, `trace` or `silent`.",
  ),
  PUBLIC_URL: optional(
    webUrl,
    "URL at which clients reach the gateway: token issuer, cookie `Secure`, own origin. A path in it is one that the proxy removes.",
    "`http://localhost:PORT`",
  ),
  REDIS_URL: optional(
    list(
      (item) => isUrl(item, ["redis:", "rediss:"]),
      `must be redis://… or rediss://…, several separated by commas, ${URL_ENCODING_HINT}`,
    ),
    "`redis://…` or `rediss://…`. Several URLs separated by commas are a cluster with one user and password; name a single address twice. `NODE_EXTRA_CA_CERTS` adds a CA.",
    "in process",
  ),
  RATE_LIMITS: setting(toggle, "on", "`off` disables rate limits, for load tests."),
  AI_STREAMS_PER_USER: setting(number(1, 9_999), "20", "Concurrent AI streams of one user. Further ones are 429."),
  TRUST_PROXY: setting(
    list(isNetwork, "must be addresses or CIDRs, separated by commas"),
    "",
    "Addresses or CIDRs of proxies whose `X-Forwarded-For` is trusted, separated by commas.",
  ),
  INTERNAL_SECRET: optional(
    text.regex(/^[\x21-\x7e]{16,}$/, "must be at least 16 printable ASCII characters without spaces"),
    "Shared by gateway and services: proves that the client address comes from the gateway. At least 16 characters. Required when they run apart.",
  ),
  GRPC_TLS_CERT: optional(text, "Certificate file: TLS on the gRPC port. A gateway alone presents it to the services."),
  GRPC_TLS_KEY: optional(text, "Key file of the certificate."),
  GRPC_TLS_CA: optional(
    text,
    "CA file; clients of the gRPC port must present a certificate of this CA. A standalone gateway accepts only services with one.",
  ),
  METRICS_HOST: setting(host, "127.0.0.1", "Address of the Prometheus endpoint."),
  METRICS_PORT: setting(port, "0", "Port of the Prometheus endpoint, `GET /metrics`. `0` turns it off."),
  OTEL_EXPORTER_OTLP_ENDPOINT: optional(
    webUrl,
    "Collector for traces (OTLP over HTTP). `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` apply too.",
  ),
  SHUTDOWN_TIMEOUT: setting(timeLimit(), "25s", "Grace period for open requests and streams."),
};

/** Variables of the gateway. */
export const gatewayVariables = {
  HOST: setting(host, "127.0.0.1", "Address for REST and server-sent events."),
  PORT: setting(port, "3000", "Port for REST and server-sent events."),
  SERVICES_URL: optional(
    servicesUrl,
    "For a standalone gateway: the `INTERNAL_URL` of the services, or `http://…` for gRPC at their `GRPC_PORT`.",
    "in process",
  ),
  CORS_ORIGINS: setting(
    list(isOrigin, "must be origins such as https://app.example.com or capacitor://localhost, separated by commas"),
    "",
    "Browser origins that may call with credentials, separated by commas. App web views: `capacitor://`, `ionic://`, `tauri://localhost`.",
  ),
  DOCS: setting(toggle, "on", "`off` removes `GET /docs` and `GET /openapi.json`."),
  WEB: setting(toggle, "on", "`off` serves the API without the web app."),
};
