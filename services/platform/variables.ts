import { z } from "zod";
import * as kind from "./config-kinds.ts";
import { optional, setting } from "./config-kinds.ts";

const text = z.string();

/** Variables of every process. */
export const commonVariables = {
  NODE_ENV: optional(
    text.refine((name) => name === "production" || !/^\s*production\s*$/i.test(name), "must be spelled production"),
    "`production` requires `SECRET_KEY` and `SMTP_URL`, and turns server reflection off.",
  ),
  LOG_LEVEL: setting(
    kind.choice("trace", "debug", "info", "warn", "error", "fatal", "silent"),
    "info",
    "`fatal`, `error`, `warn`, `info`, `debug`, `trace` or `silent`.",
  ),
  PUBLIC_URL: optional(
    kind.publicUrl,
    "URL at which clients reach the gateway: token issuer, cookie `Secure`, own origin. A path in it is one that the proxy removes.",
    "`http://localhost:PORT`",
  ),
  REDIS_URL: optional(
    kind.redisUrls,
    "`redis://…` or `rediss://…`. Several URLs separated by commas are a cluster with one user and password; name a single address twice. `NODE_EXTRA_CA_CERTS` adds a CA.",
    "in process",
  ),
  RATE_LIMITS: setting(kind.toggle, "on", "`off` disables rate limits, for load tests."),
  AI_STREAMS_PER_USER: setting(kind.number(1, 9_999), "20", "Concurrent AI streams of one user. Further ones are 429."),
  TRUST_PROXY: setting(
    kind.networks,
    "",
    "Proxies whose `X-Forwarded-For` is trusted: addresses or CIDRs, with commas.",
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
  METRICS_HOST: setting(kind.host, "127.0.0.1", "Address of the Prometheus endpoint."),
  METRICS_PORT: setting(kind.port, "0", "Port of the Prometheus endpoint, `GET /metrics`. `0` turns it off."),
  OTEL_EXPORTER_OTLP_ENDPOINT: optional(
    kind.webUrl,
    "Collector for traces (OTLP over HTTP). `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` apply too.",
  ),
  SHUTDOWN_TIMEOUT: setting(kind.timeLimit(), "25s", "Grace period for open requests and streams."),
};

/** Variables of the gateway. */
export const gatewayVariables = {
  HOST: setting(kind.host, "127.0.0.1", "Address for REST and server-sent events."),
  PORT: setting(kind.port, "3000", "Port for REST and server-sent events."),
  SERVICES_URL: optional(
    kind.servicesUrl,
    "For a standalone gateway: the `INTERNAL_URL` of the services, or `http://…` for gRPC at their `GRPC_PORT`.",
    "in process",
  ),
  CORS_ORIGINS: setting(
    kind.origins,
    "",
    "Browser origins that may call with credentials, separated by commas. App web views: `capacitor://`, `ionic://`, `tauri://localhost`.",
  ),
  DOCS: setting(kind.toggle, "on", "`off` removes `GET /docs` and `GET /openapi.json`."),
  WEB: setting(kind.toggle, "on", "`off` serves the API without the web app."),
};

/** Variables of the services. */
export const servicesVariables = {
  GRPC_HOST: setting(kind.host, "127.0.0.1", "Address for gRPC, gRPC-Web and Connect."),
  GRPC_PORT: setting(kind.port, "50051", "Port for gRPC, gRPC-Web and Connect."),
  INTERNAL_URL: optional(
    kind.internalUrl,
    "Listener of services alone for gateways, faster than gRPC: `unix:/path`, `tcp://host:port`, or `tls://host:port` with the `GRPC_TLS_*` files.",
  ),
  GRPC_REFLECTION: optional(kind.toggle, "Server reflection: gRPC tools need no schema.", "`on` outside production"),
  APP_URL: optional(kind.publicUrl, "URL of the front end, for links in e-mails.", "`PUBLIC_URL`"),
  APP_NAME: setting(
    text.regex(/^\P{Cc}{1,64}$/u, "must have at most 64 characters and no line break"),
    "Gatehouse",
    "Name in e-mails and in authenticator apps.",
  ),
  DATABASE_URL: optional(
    kind.databaseUrl,
    "`postgres://user:pass@host/database`, or `memory:` for an embedded database that stores nothing. See [operations.md](operations.md#postgresql-and-pgbouncer).",
    "embedded, in `DATA_DIR`",
  ),
  MIGRATE: setting(kind.toggle, "on", "`off`: the start leaves the schema alone, and fails if a migration is missing."),
  DATA_DIR: setting(text, "./data", "Directory for the embedded database, generated secrets (mode 600) and e-mails."),
  SECRET_KEY: optional(
    kind.base64Keys(32),
    "32 bytes in base64, or several such keys, the current one first: encrypts secrets and signing keys at rest. Required with `NODE_ENV=production`.",
    "generated into `DATA_DIR`",
  ),
  SMTP_URL: optional(
    kind.url(["smtp:", "smtps:"], `smtp://user:pass@host:port, ${kind.URL_ENCODING_HINT}`),
    "`smtp://user:pass@host:port` or `smtps://…`. Passwords require TLS, except on this machine or with `?requireTLS=false`.",
    "`.eml` files in `DATA_DIR/mail`",
  ),
  MAIL_FROM: setting(kind.mailbox, "Gatehouse <no-reply@localhost>", "Sender of every e-mail."),
  MAIL_RETRY_BASE: setting(
    kind.duration("1ms"),
    "30s",
    "First delay after a failed delivery. It doubles, with jitter, up to an hour. Delivery ends at a 5yz response, after a day of 4yz responses, after 7 days without a response, or when the link in the e-mail expires.",
  ),
  ADMIN_EMAIL: optional(text, "First administrator: created or promoted at the start, unless there is one."),
  ADMIN_PASSWORD: optional(
    text,
    "Password of the first administrator. An account with an unverified address gets it and loses its sessions.",
  ),
  ADMIN_REAUTH: setting(
    kind.duration(),
    "1h",
    "Maximum age of an administrator's sign-in for changes of role, e-mail address, verification or MFA, and for impersonation. `0` sets none.",
  ),
  REQUIRE_ADMIN_MFA: setting(
    kind.toggle,
    "off",
    "`on`: the routes of administrators require a sign-in with a second factor. See [operations.md](operations.md#administrators).",
  ),
  ACCESS_TOKEN_TTL: setting(kind.lifetime, "15m", "Lifetime of access tokens."),
  REFRESH_TOKEN_TTL: setting(kind.lifetime, "7d", "Lifetime of refresh tokens."),
  SESSION_MAX_AGE: setting(kind.lifetime, "30d", "Maximum age of a session."),
  REFRESH_GRACE: setting(kind.duration(), "10s", "Time in which a replaced refresh token returns its successor."),
  MFA_TOKEN_TTL: setting(kind.lifetime, "5m", "Lifetime of the temporary token of an MFA login."),
  VERIFY_TOKEN_TTL: setting(kind.lifetime, "24h", "Lifetime of verification tokens."),
  RESET_TOKEN_TTL: setting(kind.lifetime, "1h", "Lifetime of password reset tokens."),
  LOCKOUT_THRESHOLD: setting(kind.number(1, 1000), "5", "Failed attempts that lock an account."),
  LOCKOUT_DURATION: setting(kind.lifetime, "15m", "Duration of a lock."),
  LOCKOUT_RESET: setting(kind.lifetime, "1h", "Time after which failed attempts are forgotten."),
  PASSWORD_MAX_AGE: setting(kind.duration(), "90d", "Maximum age of a password; `0` disables expiry."),
  PASSWORD_EXPIRY: setting(kind.choice("warn", "refuse"), "warn", "`refuse` rejects logins with an expired password."),
  PASSWORD_BLOCKLIST: setting(kind.toggle, "off", "`on` rejects the 100,000 commonest passwords and their variants."),
  DELETION_GRACE: setting(kind.duration(), "30d", "Time between the request and the deletion of an account."),
  EMAIL_RETENTION: setting(kind.wholeDays, "90d", "Age at which sent and failed e-mails are deleted; `0` keeps them."),
  SESSION_RETENTION: setting(kind.duration(), "1h", "Time after which ended sessions are deleted; `0` keeps them."),
  USAGE_RETENTION: setting(kind.wholeDays, "90d", "Age at which AI calls become sums by day, from `1d`; `0`: none."),
  UNVERIFIED_RETENTION: setting(kind.duration(), "0", "Age at which unused accounts are erased, if never verified."),
  AUDIT_RETENTION: setting(kind.duration(), "400d", "Age of dropped audit events, in whole months; `0`: none."),
  REQUIRE_VERIFIED_EMAIL: setting(kind.trueOrFalse, "false", "`true` rejects logins of unverified addresses."),
  AI_CATALOG: optional(
    text,
    "File of providers and models. `services/ai/catalogue/native.json` has the providers' own names.",
    "the shipped one",
  ),
  HTTPS_PROXY: optional(
    kind.url(["http:", "https:"], `http://user:pass@host:port, ${kind.URL_ENCODING_HINT}`),
    "Proxy through which AI providers with https are reached. Requires Node 22.21 or 24.5.",
  ),
  NO_PROXY: optional(text, "Hosts that are reached without `HTTPS_PROXY`, separated by commas."),
  AI_FIRST_BYTE_TIMEOUT: setting(kind.timeLimit("1ms"), "60s", "Maximum time until the first byte of a reply."),
  AI_IDLE_TIMEOUT: setting(kind.timeLimit("1ms"), "60s", "Maximum silence within a reply."),
  AI_TOTAL_TIMEOUT: setting(kind.timeLimit("1ms"), "10m", "Maximum duration of a reply."),
  AI_RETRIES: setting(kind.number(0, 10), "2", "Retries before the first byte of a reply."),
  GEOIP_DB: optional(text, "MaxMind `.mmdb` file for the `location` of sessions."),
};
