import { z } from "zod";
import {
  base64Keys,
  choice,
  duration,
  host,
  internalUrl,
  isUrl,
  lifetime,
  mailbox,
  number,
  optional,
  port,
  setting,
  timeLimit,
  toggle,
  URL_ENCODING_HINT,
  url,
  webUrl,
  wholeDays,
} from "./config-kinds.ts";

const text = z.string();

/** Variables of the services. */
export const servicesVariables = {
  GRPC_HOST: setting(host, "127.0.0.1", "Address for gRPC, gRPC-Web and Connect."),
  GRPC_PORT: setting(port, "50051", "Port for gRPC, gRPC-Web and Connect."),
  INTERNAL_URL: optional(
    internalUrl,
    "Listener of services alone for gateways, faster than gRPC: `unix:/path`, `tcp://host:port`, or `tls://host:port` with the `GRPC_TLS_*` files.",
  ),
  GRPC_REFLECTION: optional(toggle, "Server reflection, so that gRPC tools need no schema.", "`on` outside production"),
  APP_URL: optional(webUrl, "URL of the front end, for links in e-mails.", "`PUBLIC_URL`"),
  APP_NAME: setting(
    text.max(64, "must have at most 64 characters"),
    "Gatehouse",
    "Name in e-mails and in authenticator apps.",
  ),
  DATABASE_URL: optional(
    text.refine(
      (value) =>
        value === "memory:" || (isUrl(value, ["postgres:", "postgresql:"]) && new URL(value).pathname.length > 1),
      `must be postgres://user:pass@host/database or memory:, ${URL_ENCODING_HINT}`,
    ),
    "`postgres://user:pass@host/database`, or `memory:` for an embedded database that stores nothing. See [operations.md](operations.md#postgresql-and-pgbouncer).",
    "embedded, in `DATA_DIR`",
  ),
  MIGRATE: setting(toggle, "on", "`off`: the start leaves the schema alone, and fails if a migration is missing."),
  DATA_DIR: setting(text, "./data", "Directory for the embedded database, generated secrets (mode 600) and e-mails."),
  SECRET_KEY: optional(
    base64Keys(32),
    "32 bytes in base64, or several such keys, the current one first: encrypts secrets and signing keys at rest. Required with `NODE_ENV=production`.",
    "generated into `DATA_DIR`",
  ),
  SMTP_URL: optional(
    url(["smtp:", "smtps:"], `smtp://user:pass@host:port, ${URL_ENCODING_HINT}`),
    "`smtp://user:pass@host:port` or `smtps://…`. Passwords require TLS, except on this machine or with `?requireTLS=false`.",
    "`.eml` files in `DATA_DIR/mail`",
  ),
  MAIL_FROM: setting(mailbox, "Gatehouse <no-reply@localhost>", "Sender of every e-mail."),
  MAIL_RETRY_BASE: setting(
    duration("1ms"),
    "30s",
    "First delay after a failed delivery. It doubles, with jitter, up to an hour. Delivery ends at a 5yz response, after a day of 4yz responses, after 7 days without a response, or when the link in the e-mail expires.",
  ),
  ADMIN_EMAIL: optional(
    text,
    "First administrator: created or promoted at the start, unless there is an administrator.",
  ),
  ADMIN_PASSWORD: optional(
    text,
    "Password of the first administrator. An account with an unverified address gets it and loses its sessions.",
  ),
  ADMIN_REAUTH: setting(
    duration(),
    "1h",
    "Maximum age of an administrator's sign-in for changes of role, e-mail address, verification or MFA, and for impersonation. `0` sets none.",
  ),
  REQUIRE_ADMIN_MFA: setting(
    toggle,
    "off",
    "`on`: the routes of administrators require a sign-in with a second factor. See [operations.md](operations.md#administrators).",
  ),
  ACCESS_TOKEN_TTL: setting(lifetime, "15m", "Lifetime of access tokens."),
  REFRESH_TOKEN_TTL: setting(lifetime, "7d", "Lifetime of refresh tokens."),
  SESSION_MAX_AGE: setting(lifetime, "30d", "Maximum age of a session."),
  REFRESH_GRACE: setting(duration(), "10s", "Time in which a replaced refresh token returns its successor."),
  MFA_TOKEN_TTL: setting(lifetime, "5m", "Lifetime of the temporary token of an MFA login."),
  VERIFY_TOKEN_TTL: setting(lifetime, "24h", "Lifetime of verification tokens."),
  RESET_TOKEN_TTL: setting(lifetime, "1h", "Lifetime of password reset tokens."),
  LOCKOUT_THRESHOLD: setting(number(1, 1000), "5", "Failed attempts that lock an account."),
  LOCKOUT_DURATION: setting(lifetime, "15m", "Duration of a lock."),
  LOCKOUT_RESET: setting(lifetime, "1h", "Time after which failed attempts are forgotten."),
  PASSWORD_MAX_AGE: setting(duration(), "90d", "Maximum age of a password; `0` disables expiry."),
  PASSWORD_EXPIRY: setting(choice("warn", "refuse"), "warn", "`refuse` rejects logins with an expired password."),
  PASSWORD_BLOCKLIST: setting(
    toggle,
    "off",
    "`on` rejects the 100,000 commonest passwords, also with digits and signs around them.",
  ),
  DELETION_GRACE: setting(duration(), "30d", "Time between the request and the deletion of an account."),
  EMAIL_RETENTION: setting(wholeDays, "90d", "Age at which sent and failed e-mails are deleted; `0` keeps them."),
  SESSION_RETENTION: setting(duration(), "1h", "Time after which ended sessions are deleted; `0` keeps them."),
  USAGE_RETENTION: setting(wholeDays, "90d", "Age at which AI calls become sums by day, from `1d`; `0`: none."),
  UNVERIFIED_RETENTION: setting(duration(), "0", "Age at which unused accounts are erased that were never verified."),
  AUDIT_RETENTION: setting(duration(), "400d", "Age of audit events that are dropped, in whole months; `0`: none."),
  REQUIRE_VERIFIED_EMAIL: setting(
    choice("true", "false"),
    "false",
    "`true` rejects logins before the address is verified.",
  ),
  AI_CATALOG: optional(
    text,
    "File of providers and models. `services/ai/catalogue/native.json` has the providers' own names.",
    "the shipped one",
  ),
  HTTPS_PROXY: optional(
    url(["http:", "https:"], `http://user:pass@host:port, ${URL_ENCODING_HINT}`),
    "Proxy through which AI providers with https are reached. Requires Node 22.21 or 24.5.",
  ),
  NO_PROXY: optional(text, "Hosts that are reached without `HTTPS_PROXY`, separated by commas."),
  AI_FIRST_BYTE_TIMEOUT: setting(timeLimit("1ms"), "60s", "Maximum time until the first byte of a reply."),
  AI_IDLE_TIMEOUT: setting(timeLimit("1ms"), "60s", "Maximum silence within a reply."),
  AI_TOTAL_TIMEOUT: setting(timeLimit("1ms"), "10m", "Maximum duration of a reply."),
  AI_RETRIES: setting(number(0, 10), "2", "Retries before the first byte of a reply."),
  GEOIP_DB: optional(text, "MaxMind `.mmdb` file for the `location` of sessions."),
};
