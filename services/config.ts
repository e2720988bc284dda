import { create } from "@bufbuild/protobuf";
import { z } from "zod";
import { RegisterRequestSchema } from "../gen/gatehouse/account/v1/auth_service_pb.ts";
import {
  choice,
  duration,
  isUrl,
  lifetime,
  mailbox,
  number,
  SPELLING,
  timeLimit,
  url,
  webUrl,
} from "./platform/config-kinds.ts";
import { violationsOf } from "./platform/validation.ts";
import type { DatabaseLocation } from "./store/store.ts";

const SECRET_BYTES = 32;

const variables = z.object({
  NODE_ENV: z.string().optional(),
  GRPC_HOST: z
    .string()
    .regex(/^[\w.:%-]+$/, "must be an address or a host name")
    .default("127.0.0.1"),
  GRPC_PORT: number(50051, 0, 65535),
  GRPC_TLS_CERT: z.string().optional(),
  GRPC_TLS_KEY: z.string().optional(),
  GRPC_TLS_CA: z.string().optional(),
  GRPC_REFLECTION: choice(["on", "off"], "on"),
  INTERNAL_SECRET: z
    .string()
    .regex(/^[\x21-\x7e]{16,}$/, "must be at least 16 printable ASCII characters without spaces")
    .optional(),
  PORT: number(3000, 0, 65535),
  PUBLIC_URL: webUrl.optional(),
  APP_URL: webUrl.optional(),
  DATABASE_URL: z
    .string()
    .refine(
      (text) => text === "memory:" || (isUrl(text, ["postgres:", "postgresql:"]) && new URL(text).pathname.length > 1),
      `must be postgres://user:pass@host/database or memory:, ${SPELLING}`,
    )
    .optional(),
  MIGRATE: choice(["on", "off"], "on"),
  REDIS_URL: z
    .string()
    .refine(
      (text) => text.split(",").every((part) => isUrl(part.trim(), ["redis:", "rediss:"])),
      `must be redis://… or rediss://…, several separated by commas, ${SPELLING}`,
    )
    .optional(),
  DATA_DIR: z.string().min(1, "must be a folder").default("./data"),
  SECRET_KEY: z
    .string()
    .refine(
      (text) => /^[A-Za-z0-9+/_-]+={0,2}$/.test(text) && Buffer.from(text, "base64").length === SECRET_BYTES,
      `must be ${SECRET_BYTES} bytes in base64`,
    )
    .optional(),
  SMTP_URL: url(["smtp:", "smtps:"], `smtp://user:pass@host:port, ${SPELLING}`).optional(),
  MAIL_FROM: mailbox("Gatehouse <no-reply@localhost>"),
  MAIL_RETRY_BASE: duration("30s", { least: "1ms" }),
  ADMIN_EMAIL: z.string().optional(),
  ADMIN_PASSWORD: z.string().optional(),
  ACCESS_TOKEN_TTL: lifetime("15m"),
  REFRESH_TOKEN_TTL: lifetime("7d"),
  SESSION_MAX_AGE: lifetime("30d"),
  REFRESH_GRACE: duration("10s"),
  MFA_TOKEN_TTL: lifetime("5m"),
  VERIFY_TOKEN_TTL: lifetime("24h"),
  RESET_TOKEN_TTL: lifetime("1h"),
  LOCKOUT_THRESHOLD: number(5, 1, 1000),
  LOCKOUT_DURATION: lifetime("15m"),
  LOCKOUT_RESET: lifetime("1h"),
  PASSWORD_MAX_AGE: duration("90d"),
  PASSWORD_EXPIRY: choice(["warn", "refuse"], "warn"),
  DELETION_GRACE: duration("30d"),
  AUDIT_RETENTION: duration("400d"),
  REQUIRE_VERIFIED_EMAIL: choice(["true", "false"], "false"),
  RATE_LIMITS: choice(["on", "off"], "on"),
  AI_CATALOG: z.string().optional(),
  AI_FIRST_BYTE_TIMEOUT: timeLimit("60s", "1ms"),
  AI_IDLE_TIMEOUT: timeLimit("60s", "1ms"),
  AI_TOTAL_TIMEOUT: timeLimit("10m", "1ms"),
  AI_RETRIES: number(2, 0, 10),
  GEOIP_DB: z.string().optional(),
  OTEL_EXPORTER_OTLP_ENDPOINT: webUrl.optional(),
  SHUTDOWN_TIMEOUT: timeLimit("25s"),
  METRICS_PORT: number(0, 0, 65535),
  LOG_LEVEL: choice(["trace", "debug", "info", "warn", "error", "fatal", "silent"], "info"),
});

/** The services' settings, read once; durations in ms. */
export type Config = Readonly<ReturnType<typeof arrange>>;

/** Settings, or everything that is wrong with them; secrets are named, never shown. */
export type ConfigResult = { config: Config } | { problems: string[] };

/**
 * Reads the environment; docs/configuration.md lists the variables. Pure; an empty variable counts as absent.
 * @param apart the services run in a process of their own, and have to recognise their gateway.
 */
export function readConfig(env: Record<string, string | undefined>, { apart = false } = {}): ConfigResult {
  const present: Present = Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) => (value ? [[name, value]] : [])),
  );
  const read = variables.safeParse(present);
  const problems = [
    ...(read.error?.issues.map((issue) => `${issue.path.join(".")} ${issue.message}`) ?? []),
    ...contradictions(present, apart),
  ];
  if (read.success && read.data.REFRESH_TOKEN_TTL > read.data.SESSION_MAX_AGE) {
    problems.push("REFRESH_TOKEN_TTL must not exceed SESSION_MAX_AGE");
  }
  if (!read.success || problems.length > 0) return { problems };
  return { config: Object.freeze(arrange(read.data, present)) };
}

type Variables = z.infer<typeof variables>;
type Present = Record<string, string>;

function contradictions(v: Present, apart: boolean): string[] {
  return [
    apart && !v.INTERNAL_SECRET && "INTERNAL_SECRET must be set when gateway and services run apart",
    v.NODE_ENV === "production" && !v.SECRET_KEY && "SECRET_KEY must be set when NODE_ENV is production",
    !v.GRPC_TLS_CERT !== !v.GRPC_TLS_KEY && "GRPC_TLS_CERT and GRPC_TLS_KEY must be set together",
    v.GRPC_TLS_CA && !v.GRPC_TLS_CERT && "GRPC_TLS_CA must be set with GRPC_TLS_CERT",
    !v.ADMIN_EMAIL !== !v.ADMIN_PASSWORD && "ADMIN_EMAIL and ADMIN_PASSWORD must be set together",
    ...adminProblems(v),
  ].filter((problem) => typeof problem === "string");
}

/** The first administrator meets the rules of everybody's registration. */
function adminProblems({ ADMIN_EMAIL: email, ADMIN_PASSWORD: password }: Present): string[] {
  if (!email || !password) return [];
  const account = create(RegisterRequestSchema, { email, password, name: "Administrator", acceptTerms: true });
  const byField = Map.groupBy(violationsOf(RegisterRequestSchema, account), ({ field }) => field);
  return [...byField].map(
    ([field, violations]) => `ADMIN_${field.toUpperCase()} ${violations.map(({ message }) => message).join(", ")}`,
  );
}

function databaseLocation(v: Variables): DatabaseLocation {
  if (v.DATABASE_URL === "memory:") return { kind: "memory" };
  return v.DATABASE_URL ? { kind: "postgres", url: v.DATABASE_URL } : { kind: "folder", path: v.DATA_DIR };
}

function arrange(v: Variables, env: Present) {
  const publicUrl = v.PUBLIC_URL ?? `http://localhost:${v.PORT}`;
  return {
    grpc: {
      host: v.GRPC_HOST,
      port: v.GRPC_PORT,
      reflection: v.GRPC_REFLECTION === "on",
      tls: v.GRPC_TLS_CERT && v.GRPC_TLS_KEY ? { cert: v.GRPC_TLS_CERT, key: v.GRPC_TLS_KEY, ca: v.GRPC_TLS_CA } : null,
    },
    internalSecret: v.INTERNAL_SECRET,
    publicUrl,
    appUrl: v.APP_URL ?? publicUrl,
    database: databaseLocation(v),
    migrate: v.MIGRATE === "on",
    redisUrls: v.REDIS_URL?.split(",").map((part) => part.trim()) ?? [],
    dataDir: v.DATA_DIR,
    secretKey: v.SECRET_KEY,
    mail: { smtpUrl: v.SMTP_URL, from: v.MAIL_FROM, retryBaseMs: v.MAIL_RETRY_BASE },
    admin: v.ADMIN_EMAIL && v.ADMIN_PASSWORD ? { email: v.ADMIN_EMAIL, password: v.ADMIN_PASSWORD } : null,
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
    /** 0: audit events are kept for ever. */
    auditRetentionMs: v.AUDIT_RETENTION,
    requireVerifiedEmail: v.REQUIRE_VERIFIED_EMAIL === "true",
    rateLimits: v.RATE_LIMITS === "on",
    ai: {
      catalogue: v.AI_CATALOG,
      firstByteMs: v.AI_FIRST_BYTE_TIMEOUT,
      idleMs: v.AI_IDLE_TIMEOUT,
      totalMs: v.AI_TOTAL_TIMEOUT,
      retries: v.AI_RETRIES,
      /** The variables that a catalogue may name, for keys and base URLs: all but our own. */
      variables: Object.fromEntries(Object.entries(env).filter(([name]) => !(name in variables.shape))),
    },
    geoipDatabase: v.GEOIP_DB,
    shutdownMs: v.SHUTDOWN_TIMEOUT,
    metricsPort: v.METRICS_PORT,
    otlpEndpoint: v.OTEL_EXPORTER_OTLP_ENDPOINT,
    logLevel: v.LOG_LEVEL,
  };
}
