import { create } from "@bufbuild/protobuf";
import { RegisterRequestSchema } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import type { Variable } from "./config-kinds.ts";
import { violationsOf } from "./validation.ts";
import { commonVariables, gatewayVariables, servicesVariables } from "./variables.ts";

/** What runs in a process: both sides, the gateway alone, the services alone, or a command with the settings of any. */
export type ProcessRole = "all" | "gateway" | "services" | "command";

/** The settings of a process. Durations are in ms. */
export type Config = Readonly<ReturnType<typeof toConfig>>;

/** Set variables. */
type Env = Record<string, string>;
type Environment = Record<string, string | undefined>;

const variables = { ...commonVariables, ...gatewayVariables, ...servicesVariables };
const ofServices = { ...commonVariables, PORT: gatewayVariables.PORT, ...servicesVariables };
const gateway = { ...commonVariables, ...gatewayVariables };
const groups = { all: variables, gateway, services: ofServices, command: ofServices };
type Values = { [K in keyof typeof variables]: (typeof variables)[K] extends Variable<infer T> ? T : never };

/** The settings. @throws Error with all problems */
export function requireConfig(environment: Environment, role?: ProcessRole): Config {
  const { config, problems } = readConfig(environment, role);
  if (problems.length > 0) throw new Error(problems.join("\n"));
  return config;
}

/**
 * Reads the environment. A blank variable counts as absent. Variables of the side that does not run here are not read.
 * @returns the frozen settings and all problems, which never contain a value, since it may be a secret. What is wrong has its
 * default, so that the files in the settings can be checked too.
 */
export function readConfig(environment: Environment, role: ProcessRole = "all") {
  const isSet = (entry: [string, string | undefined]): entry is [string, string] => Boolean(entry[1]?.trim());
  const env: Env = Object.fromEntries(Object.entries(environment).filter(isSet));
  const problems: string[] = [];
  const values: Record<string, unknown> = {};
  for (const [name, { schema, fallback }] of Object.entries<Variable>(variables)) {
    const text = (name in groups[role] ? env[name] : undefined) ?? fallback;
    if (text === undefined) continue;
    const read = schema.safeParse(text);
    if (!read.success) problems.push(`${name} ${read.error.issues[0]?.message}`);
    values[name] = read.success ? read.data : fallback === undefined ? undefined : schema.parse(fallback);
  }
  if (role !== "command") problems.push(...crossChecks(env, values as Partial<Values>, role));
  return { config: Object.freeze(toConfig(values as Values, env)), problems };
}

/** Problems that concern several variables. */
function crossChecks(env: Env, values: Partial<Values>, role: ProcessRole): string[] {
  const isGateway = role === "gateway";
  const isProduction = env.NODE_ENV === "production" && !isGateway;
  const isTls = /^tls:/i.test(values.INTERNAL_URL ?? "");
  const { REFRESH_TOKEN_TTL: refresh = 0, SESSION_MAX_AGE: session = Number.POSITIVE_INFINITY } = values;
  return [
    isGateway && !env.SERVICES_URL && "SERVICES_URL must be set for a gateway alone: it says where the services are",
    role === "services" && env.SERVICES_URL && "SERVICES_URL must not be set for the services alone: gateways use it",
    role !== "all" && !env.INTERNAL_SECRET && "INTERNAL_SECRET must be set when gateway and services run apart",
    role === "all" && env.INTERNAL_URL && "INTERNAL_URL must be set for the services alone: gateways use it",
    isTls && !env.GRPC_TLS_CERT && "GRPC_TLS_CERT must be set when INTERNAL_URL is tls://",
    !env.GRPC_TLS_CERT !== !env.GRPC_TLS_KEY && "GRPC_TLS_CERT and GRPC_TLS_KEY must be set together",
    isProduction && !env.SECRET_KEY && "SECRET_KEY must be set when NODE_ENV is production",
    isProduction && !env.SMTP_URL && "SMTP_URL must be set when NODE_ENV is production",
    !isGateway && env.GRPC_TLS_CA && !env.GRPC_TLS_CERT && "GRPC_TLS_CA must be set with GRPC_TLS_CERT",
    ...(isGateway ? [] : adminProblems(env)),
    refresh > session && "REFRESH_TOKEN_TTL must not exceed SESSION_MAX_AGE",
  ].filter((problem) => typeof problem === "string");
}

/** Checks the first administrator against the constraints of registration. */
function adminProblems({ ADMIN_EMAIL: email, ADMIN_PASSWORD: password }: Env): string[] {
  if (!email && !password) return [];
  if (!email || !password) return ["ADMIN_EMAIL and ADMIN_PASSWORD must be set together"];
  const account = create(RegisterRequestSchema, { email, password, name: "Administrator", acceptTerms: true });
  const byField = Map.groupBy(violationsOf(RegisterRequestSchema, account), ({ field }) => field);
  return [...byField].map(
    ([field, violations]) => `ADMIN_${field.toUpperCase()} ${violations.map(({ message }) => message).join(", ")}`,
  );
}

function databaseLocation(v: Values) {
  if (v.DATABASE_URL === "memory:") return { kind: "memory" as const };
  if (v.DATABASE_URL) return { kind: "postgres" as const, url: v.DATABASE_URL };
  return { kind: "folder" as const, path: v.DATA_DIR };
}

/** What the operator should know, above all of a production deployment. */
function warningsOf(v: Values): string[] {
  const hasProxies = process.allowedNodeEnvironmentFlags.has("--use-env-proxy"); // came with the agents' `proxyEnv`
  const ignored = v.HTTPS_PROXY && !hasProxies ? ["HTTPS_PROXY has no effect before Node 22.21 and 24.5"] : [];
  if (v.NODE_ENV !== "production") return ignored;
  return [
    ...ignored,
    !v.PUBLIC_URL?.startsWith("https:") && "PUBLIC_URL is not https: browsers send cookies and passwords in the clear",
    !v.RATE_LIMITS && "RATE_LIMITS is off: passwords can be guessed as fast as the machine allows",
    databaseLocation(v).kind !== "postgres" && "DATABASE_URL is not set: the embedded database is for trying out",
    v.GRPC_REFLECTION && "GRPC_REFLECTION is on: it shows every method to anybody",
    !v.REQUIRE_ADMIN_MFA && "REQUIRE_ADMIN_MFA is off: administrators may sign in without a second factor",
  ].filter((warning) => typeof warning === "string");
}

function toConfig(v: Values, env: Env) {
  const publicUrl = v.PUBLIC_URL ?? `http://localhost:${v.PORT}`;
  const [cert, key, ca] = [v.GRPC_TLS_CERT, v.GRPC_TLS_KEY, v.GRPC_TLS_CA];
  return {
    host: v.HOST,
    port: v.PORT,
    publicUrl,
    appUrl: v.APP_URL ?? publicUrl,
    appName: v.APP_NAME,
    docs: v.DOCS,
    web: v.WEB,
    corsOrigins: v.CORS_ORIGINS,
    trustProxy: v.TRUST_PROXY,
    /** Where the services are; undefined: in this process. */
    servicesUrl: v.SERVICES_URL,
    /** The gateway's own certificate, and the authority of the services'. */
    servicesTls: { cert, key, ca },
    internalSecret: v.INTERNAL_SECRET,
    /** Where gateways reach the services; undefined: by gRPC only. */
    internalUrl: v.INTERNAL_URL,
    grpc: {
      host: v.GRPC_HOST,
      port: v.GRPC_PORT,
      reflection: v.GRPC_REFLECTION ?? v.NODE_ENV !== "production",
      tls: cert && key ? { cert, key, ca } : null,
    },
    database: databaseLocation(v),
    migrate: v.MIGRATE,
    redisUrls: v.REDIS_URL ?? [],
    dataDir: v.DATA_DIR,
    secretKey: v.SECRET_KEY,
    mail: { smtpUrl: v.SMTP_URL, from: v.MAIL_FROM, retryBaseMs: v.MAIL_RETRY_BASE },
    admin: v.ADMIN_EMAIL && v.ADMIN_PASSWORD ? { email: v.ADMIN_EMAIL, password: v.ADMIN_PASSWORD } : null,
    /** 0: any age. */
    adminReauthMs: v.ADMIN_REAUTH,
    requireAdminMfa: v.REQUIRE_ADMIN_MFA,
    accessTokenMs: v.ACCESS_TOKEN_TTL,
    refreshTokenMs: v.REFRESH_TOKEN_TTL,
    sessionMaxAgeMs: v.SESSION_MAX_AGE,
    refreshGraceMs: v.REFRESH_GRACE,
    mfaTokenMs: v.MFA_TOKEN_TTL,
    verifyTokenMs: v.VERIFY_TOKEN_TTL,
    resetTokenMs: v.RESET_TOKEN_TTL,
    lockout: { threshold: v.LOCKOUT_THRESHOLD, durationMs: v.LOCKOUT_DURATION, resetMs: v.LOCKOUT_RESET },
    passwordMaxAgeMs: v.PASSWORD_MAX_AGE,
    refuseExpiredPasswords: v.PASSWORD_EXPIRY === "refuse",
    deletionGraceMs: v.DELETION_GRACE,
    // 0: kept for ever
    emailRetentionMs: v.EMAIL_RETENTION,
    sessionRetentionMs: v.SESSION_RETENTION,
    usageRetentionMs: v.USAGE_RETENTION,
    unverifiedRetentionMs: v.UNVERIFIED_RETENTION,
    auditRetentionMs: v.AUDIT_RETENTION,
    requireVerifiedEmail: v.REQUIRE_VERIFIED_EMAIL,
    rateLimits: v.RATE_LIMITS,
    passwordBlocklist: v.PASSWORD_BLOCKLIST,
    aiStreamsPerUser: v.AI_STREAMS_PER_USER,
    ai: {
      catalogue: v.AI_CATALOG,
      proxyEnv: { HTTPS_PROXY: v.HTTPS_PROXY, NO_PROXY: v.NO_PROXY },
      firstByteMs: v.AI_FIRST_BYTE_TIMEOUT,
      idleMs: v.AI_IDLE_TIMEOUT,
      totalMs: v.AI_TOTAL_TIMEOUT,
      retries: v.AI_RETRIES,
      /** The variables that a catalogue may name, for keys and base URLs: all but our own. */
      variables: Object.fromEntries(Object.entries(env).filter(([name]) => !(name in variables))),
    },
    geoipDatabase: v.GEOIP_DB,
    shutdownMs: v.SHUTDOWN_TIMEOUT,
    /** Port 0: no metrics. */
    metrics: { host: v.METRICS_HOST, port: v.METRICS_PORT },
    otlpEndpoint: v.OTEL_EXPORTER_OTLP_ENDPOINT,
    logLevel: v.LOG_LEVEL,
    /** Logged at the start. */
    warnings: warningsOf(v),
  };
}
