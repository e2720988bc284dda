import * as kind from "./config-kinds.ts";
import { optional, setting, text } from "./config-kinds.ts";

/** Variables of all processes. */
export const commonVariables = {
  nodeEnv: optional(
    text.refine(
      (name) => name === "production" || !/^\s*production\s*$/i.test(name),
      "must be spelled production",
    ),
  ).describe("`production` requires `SECRET_KEY` and `SMTP_URL`, and disables server reflection."),
  logLevel: setting(
    kind.choice("trace", "debug", "info", "warn", "error", "fatal", "silent"),
    "info",
  ).describe("`fatal`, `error`, `warn`, `info`, `debug`, `trace` or `silent`."),
  publicUrl: optional(kind.publicUrl, "`http://localhost:PORT`").describe(
    "Base URL as clients see it. Determines the token issuer, `Secure` cookies and the own origin. The proxy must strip a path prefix.",
  ),
  appUrl: optional(kind.publicUrl, "`PUBLIC_URL`").describe(
    "URL of the front end, for links in e-mails and for passkeys.",
  ),
  appName: setting(kind.displayName, "Gatehouse").describe(
    "Name of the installation in web app, e-mails, API reference and authenticator apps.",
  ),
  appAccent: setting(kind.accent, "#4f55d2").describe(
    "Accent colour of the installation. Readable darker and lighter shades are derived from it.",
  ),
  appLogo: optional(text).describe(
    "Logo of the installation: an SVG or PNG file of at most 256 KiB, square or up to four times as wide as high. E-mails show only a PNG.",
  ),
  termsUrl: optional(kind.linkUrl).describe(
    "URL of the terms of use, linked in the web app and in e-mails.",
  ),
  privacyUrl: optional(kind.linkUrl).describe(
    "URL of the privacy policy, linked in the web app and in e-mails.",
  ),
  supportUrl: optional(kind.linkUrl).describe(
    "URL of the support for users, linked in the web app and in e-mails; may be a `mailto:` link.",
  ),
  registration: setting(kind.choice("open", "invited"), "open").describe(
    "`invited`: only administrators create accounts. See [sign-in.md](sign-in.md#who-may-sign-up).",
  ),
  externalReturnUrls: setting(kind.returnUrls, "").describe(
    "Pages and apps that may receive the response of a sign-in provider in addition to `APP_URL/external`, separated by commas: `https://…`, or the scheme of an app such as `com.example.app:/external`. See [sign-in.md](sign-in.md#apps-and-other-front-ends).",
  ),
  redisUrl: optional(kind.redisUrls, "in process").describe(
    "`redis://…` or `rediss://…`. Several URLs separated by commas form a cluster with a single user and password; give the URL twice for a cluster with one address. `NODE_EXTRA_CA_CERTS` adds a CA.",
  ),
  workers: setting(kind.workers, "1").describe(
    "Number of worker processes that share the ports; `auto`: one per core. More than one requires `DATABASE_URL` and `REDIS_URL`. See [operations.md](operations.md#workers).",
  ),
  rateLimits: setting(kind.toggle, "on").describe(
    "`off` disables rate limits, for load tests. The limits on e-mails per account still apply.",
  ),
  aiStreamsPerUser: setting(kind.number(1, 9_999), "20").describe(
    "Maximum number of concurrent AI streams per user, counted by each process or worker. Calls of models under `/v1` count as streams, streamed or not. Additional streams get 429.",
  ),
  aiStreamsPerServiceAccount: setting(kind.number(1, 99_999), "200").describe(
    "Maximum number of concurrent AI streams per service account, counted in the same way.",
  ),
  trustProxy: setting(kind.networks, "").describe(
    "Addresses or CIDRs of the proxies whose `X-Forwarded-For` is trusted, separated by commas.",
  ),
  corsOrigins: setting(kind.origins, "").describe(
    "Browser origins that may call both ports with credentials, separated by commas. App web views: `capacitor://`, `ionic://`, `tauri://localhost`.",
  ),
  internalSecret: optional(
    text.regex(
      /^[\x21-\x7e]{16,}$/,
      "must be at least 16 printable ASCII characters without spaces",
    ),
  ).describe(
    "Secret shared by gateways and services, which proves that a call comes from a gateway. At least 16 characters. Required when they run in separate processes.",
  ),
  grpcTlsCert: optional(text).describe(
    "Certificate file. Enables TLS on the gRPC port. A standalone gateway presents it to the services.",
  ),
  grpcTlsKey: optional(text).describe("Key file of the certificate."),
  grpcTlsCa: optional(text).describe(
    "CA file. Clients of the gRPC port must present a certificate signed by this CA. A standalone gateway only accepts services with such a certificate.",
  ),
  metricsHost: setting(kind.host, "127.0.0.1").describe("Address of the Prometheus endpoint."),
  metricsPort: setting(kind.port, "0").describe(
    "Port of the Prometheus endpoint, `GET /metrics`. `0` disables it.",
  ),
  otelExporterOtlpEndpoint: optional(kind.webUrl).describe(
    "URL of the trace collector (OTLP over HTTP). `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` apply too.",
  ),
  shutdownTimeoutMs: setting(kind.timeLimit(), "25s").describe(
    "Time that open requests and streams have to finish at shutdown.",
  ),
};

/** Variables of the gateway. */
export const gatewayVariables = {
  host: setting(kind.host, "127.0.0.1").describe("Address for REST and server-sent events."),
  port: setting(kind.port, "3000").describe("Port for REST and server-sent events."),
  servicesUrl: optional(kind.servicesUrl, "in process").describe(
    "For a standalone gateway: the `INTERNAL_URL` of the services, or `http://…` for gRPC at their `GRPC_PORT`.",
  ),
  logRequests: optional(
    kind.choice("all", "api", "errors"),
    "`api` on a terminal, else `all`",
  ).describe(
    "Requests to log: `all`, `api` (without files and health checks) or `errors` (status 400 and above).",
  ),
  docs: setting(kind.toggle, "on").describe("`off` removes `GET /docs` and `GET /openapi.json`."),
  wellKnown: optional(text).describe(
    "Directory with files to serve below `/.well-known/`, for apps and related origins of passkeys: `assetlinks.json`, `apple-app-site-association`, `webauthn`. Read at startup.",
  ),
  web: setting(kind.toggle, "on").describe("`off` serves the API without the web app."),
};

/** Variables of the services. */
export const servicesVariables = {
  grpcHost: setting(kind.host, "127.0.0.1").describe("Address for gRPC, gRPC-Web and Connect."),
  grpcPort: setting(kind.port, "50051").describe("Port for gRPC, gRPC-Web and Connect."),
  internalUrl: optional(kind.internalUrl).describe(
    "Listener for standalone gateways, faster than gRPC: `unix:/path`, `tcp://host:port`, or `tls://host:port` with the `GRPC_TLS_*` files.",
  ),
  grpcReflection: optional(kind.toggle, "`on` outside production").describe(
    "gRPC server reflection. Tools such as `buf curl` need no schema then.",
  ),
  mfaIssuer: optional(kind.displayName, "`APP_NAME`").describe(
    "Name of the installation in authenticator apps.",
  ),
  databaseUrl: optional(kind.databaseUrl, "embedded, in `DATA_DIR`").describe(
    "`postgres://user:pass@host/database`, or `memory:` for an embedded database that is lost at exit. See [operations.md](operations.md#postgresql-and-pgbouncer).",
  ),
  migrate: setting(kind.toggle, "on").describe(
    "`off` skips migrations at startup and fails if one is missing.",
  ),
  dataDir: setting(text, "./data").describe(
    "Directory for the embedded database, generated secrets (mode 600) and e-mails.",
  ),
  secretKey: optional(kind.base64Keys(32), "generated into `DATA_DIR`").describe(
    "Encrypts secrets and signing keys at rest. 32 bytes in base64, or several such keys separated by commas, the current one first. Required with `NODE_ENV=production`.",
  ),
  smtpUrl: optional(
    kind.url(["smtp:", "smtps:"], `smtp://user:pass@host:port, ${kind.URL_ENCODING_HINT}`),
    "`.eml` files in `DATA_DIR/mail`",
  ).describe(
    "`smtp://user:pass@host:port` or `smtps://…`. Passwords require TLS, except on the same machine or with `?requireTLS=false`. `?name=mail.example.com` sets the name announced in EHLO, by default the host of `PUBLIC_URL` or the domain of `MAIL_FROM`.",
  ),
  mailFrom: optional(kind.mailbox, "`APP_NAME <no-reply@localhost>`").describe(
    "Sender of every e-mail.",
  ),
  mailTemplates: optional(text, "the shipped ones").describe(
    "Directory with texts and a layout that replace the shipped ones in e-mails. See [operations.md](operations.md#texts-of-e-mails).",
  ),
  mailRetryBaseMs: setting(kind.duration("1ms"), "30s").describe(
    "Delay after the first failed delivery. It doubles, with jitter, up to an hour. Delivery is given up after a 5yz response about the e-mail, a day of 4yz responses, 7 days without either, or when the link in the e-mail expires.",
  ),
  adminEmail: optional(text).describe(
    "First administrator: created or promoted at startup unless an administrator exists.",
  ),
  adminPassword: optional(text).describe(
    "Password of the first administrator. If the account exists with an unverified address, its password is replaced and its sessions are revoked.",
  ),
  adminReauthMs: setting(kind.duration(), "1h").describe(
    "Maximum age of an administrator's sign-in or confirmation for sensitive operations: changing a role, e-mail address, verification, MFA or suspension, deleting an administrator, inviting users, resetting access, impersonation, and webhooks. `0` means no limit.",
  ),
  requireAdminMfa: setting(kind.toggle, "off").describe(
    "`on` requires a sign-in with a second factor for `/admin` routes. See [operations.md](operations.md#administrators).",
  ),
  accessTokenTtlMs: setting(kind.lifetime, "15m").describe("Lifetime of access tokens."),
  tokenMetadata: setting(kind.names, "").describe(
    "Members of the metadata of users that access tokens contain in the claim `metadata`, separated by commas. See [sign-in.md](sign-in.md#metadata-of-users).",
  ),
  refreshTokenTtlMs: setting(kind.lifetime, "7d").describe("Lifetime of refresh tokens."),
  sessionMaxAgeMs: setting(kind.lifetime, "30d").describe(
    "Maximum lifetime of a session, however often it is refreshed.",
  ),
  refreshGraceMs: setting(kind.duration(), "10s").describe(
    "Time during which a refresh token that was just replaced still returns its successor.",
  ),
  mfaTokenTtlMs: setting(kind.lifetime, "5m").describe(
    "Lifetime of the temporary token (`tempToken`) of an MFA login.",
  ),
  verifyTokenTtlMs: setting(kind.lifetime, "24h").describe("Lifetime of verification tokens."),
  resetTokenTtlMs: setting(kind.lifetime, "1h").describe("Lifetime of password reset tokens."),
  invitationTtlMs: setting(kind.lifetime, "7d").describe(
    "Lifetime of invitation tokens, which set a first password.",
  ),
  passkeyRpId: optional(kind.rpId, "host of `APP_URL`").describe(
    "Domain that passkeys belong to: the host of `APP_URL` or a parent domain. If you change it, existing passkeys stop working. See [sign-in.md](sign-in.md#passkeys).",
  ),
  passkeyOrigins: setting(kind.passkeyOrigins, "").describe(
    "Additional origins that may use passkeys, separated by commas: `https://…`, or `android:apk-key-hash:…` for Android apps.",
  ),
  signInProviders: optional(text).describe(
    "JSON file with additional sign-in providers. See [sign-in.md](sign-in.md#any-openid-connect-provider).",
  ),
  signUpDomains: setting(kind.domains, "").describe(
    "E-mail domains that may register, separated by commas. By default all domains may. Invitations are not restricted.",
  ),
  emailSignIn: setting(kind.choice("off", "code"), "off").describe(
    "`code`: users can sign in with a code sent to their address. See [sign-in.md](sign-in.md#codes-by-e-mail).",
  ),
  lockoutThreshold: setting(kind.number(1, 1000), "5").describe(
    "Number of failed attempts after which an account is locked.",
  ),
  lockoutDurationMs: setting(kind.lifetime, "15m").describe("Duration of a lock."),
  lockoutResetMs: setting(kind.lifetime, "1h").describe(
    "Time after which the count of failed attempts is reset.",
  ),
  lockoutKnownDevices: setting(kind.choice("lock", "exempt"), "lock").describe(
    "`exempt`: while an account is locked, each browser or app that has signed in to it before has separate guesses. See [sign-in.md](sign-in.md#known-devices).",
  ),
  passwordMaxAgeMs: setting(kind.duration(), "90d").describe(
    "Maximum age of a password; `0` disables expiry.",
  ),
  passwordExpiry: setting(kind.choice("warn", "refuse"), "warn").describe(
    "`refuse` rejects logins with an expired password.",
  ),
  passwordBlocklist: optional(kind.toggle, "`on` in production").describe(
    "`on` rejects the 100,000 most common passwords and their variants, and passwords derived from the user's name or address or from `APP_NAME`.",
  ),
  apiKeysPerUser: setting(kind.number(1, 9_999), "20").describe(
    "Maximum number of valid API keys per user or service account.",
  ),
  apiKeyMaxAgeMs: setting(kind.wholeDays, "365d").describe(
    "Maximum lifetime of an API key, and its default; at least `1d`. `0` allows keys that do not expire.",
  ),
  deletionGraceMs: setting(kind.duration(), "30d").describe(
    "Time between the request to delete an account and its erasure.",
  ),
  emailRetentionMs: setting(kind.wholeDays, "90d").describe(
    "Sent and failed e-mails older than this are deleted. `0` keeps them.",
  ),
  sessionRetentionMs: setting(kind.duration(), "1h").describe(
    "Sessions that ended longer ago than this are deleted. `0` keeps them.",
  ),
  usageRetentionMs: setting(kind.wholeDays, "90d").describe(
    "AI calls older than this are aggregated by day; at least `1d`. `0` keeps every call.",
  ),
  unverifiedRetentionMs: setting(kind.duration(), "0").describe(
    "Unused, never verified accounts older than this are erased. `0` keeps them.",
  ),
  auditRetentionMs: setting(kind.duration(), "400d").describe(
    "Audit events older than this are deleted, in whole months. `0` keeps them.",
  ),
  requireVerifiedEmail: setting(kind.trueOrFalse, "false").describe(
    "`true` rejects logins until the e-mail address is verified.",
  ),
  aiCatalog: optional(text, "`neutral`").describe(
    "Catalogue of AI providers and models: `neutral`, `native` (with the providers' own names), or the path of a JSON file.",
  ),
  httpsProxy: optional(kind.proxyUrl)
    .meta({ names: ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] })
    .describe(
      "Proxy for https requests to AI providers, sign-in providers and webhooks: `http://user:pass@host:port`. As in curl, `https_proxy` takes precedence, and `all_proxy` and `ALL_PROXY` are fallbacks. Requires Node 22.21 or 24.5.",
    ),
  // HTTP_PROXY in upper case is ignored, as in curl: a CGI server sets it from a request header.
  httpProxy: optional(kind.proxyUrl)
    .meta({ names: ["http_proxy", "all_proxy", "ALL_PROXY"] })
    .describe(
      "Proxy for http requests to AI providers. Lower case only, as in curl; `all_proxy` and `ALL_PROXY` are fallbacks.",
    ),
  noProxy: optional(text)
    .meta({ names: ["no_proxy", "NO_PROXY"] })
    .describe(
      "Hosts that are reached without a proxy, separated by commas: names (including their subdomains), addresses, networks such as `10.0.0.0/8`, or `*` for all. `no_proxy` takes precedence.",
    ),
  aiFirstByteTimeoutMs: setting(kind.timeLimit("1ms"), "60s").describe(
    "Maximum time until the first byte of a streamed reply.",
  ),
  aiIdleTimeoutMs: setting(kind.timeLimit("1ms"), "60s").describe(
    "Maximum silence within a streamed reply.",
  ),
  aiTotalTimeoutMs: setting(kind.timeLimit("1ms"), "10m").describe("Maximum duration of a reply."),
  aiRetries: setting(kind.number(0, 10), "2").describe(
    "Maximum number of retries before the first byte of a reply.",
  ),
  budgetTimeZone: setting(kind.timeZone, "UTC").describe(
    "Time zone in which the days and months of budgets begin, such as `Europe/Berlin`. Must be the same for all replicas.",
  ),
  webhookNetworks: setting(kind.networks, "").describe(
    "Private addresses or CIDRs that webhooks may deliver to, over http too, separated by commas. Addresses of cloud metadata services are never allowed. See [webhooks.md](webhooks.md#private-addresses).",
  ),
  geoipDb: optional(text).describe(
    "MaxMind `.mmdb` file for the `location` of sessions and audit events.",
  ),
};
