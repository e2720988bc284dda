import { expect, test, vi } from "vitest";
import { requireConfig } from "../../../services/platform/config/config.ts";

const SECRET = { INTERNAL_SECRET: "between-the-two-of-us" };

/**
 * `docs/configuration.md` lists the others. It is generated from the tables that give the defaults.
 */
test("Configuration: has defaults derived from other variables, and is frozen", () => {
  const config = requireConfig({});
  expect(config).toMatchObject({
    servicesUrl: undefined,
    tls: {},
    internalSecret: undefined,
    trustProxy: [],
    corsOrigins: [],
    ...{ grpcHost: "127.0.0.1", grpcPort: 50051, grpcReflection: true },
    publicUrl: "http://localhost:3000",
    appUrl: "http://localhost:3000",
    database: { kind: "folder", path: "./data" },
    redisUrl: undefined,
    admin: null,
    passwordExpiry: "warn",
    ...{
      aiFirstByteTimeoutMs: 60_000,
      aiIdleTimeoutMs: 60_000,
      aiTotalTimeoutMs: 600_000,
      aiRetries: 2,
    },
    otelExporterOtlpEndpoint: undefined,
  });
  expect([config, requireConfig({ TRUST_PROXY: "::1" }).trustProxy].map(Object.isFrozen)).toEqual([
    true,
    true,
  ]);
});

test.each([
  { env: {}, isOn: false },
  { env: { PASSWORD_BLOCKLIST: "on" }, isOn: true },
  { env: { NODE_ENV: "production" }, isOn: true },
  { env: { NODE_ENV: "production", PASSWORD_BLOCKLIST: "off" }, isOn: false },
])("Configuration: the list of common passwords with $env is on: $isOn", ({ env, isOn }) => {
  const required = { SECRET_KEY: Buffer.alloc(32, 7).toString("base64"), SMTP_URL: "smtp://mail" };
  expect(requireConfig({ ...required, ...env }).passwordBlocklist).toBe(isOn);
});

const internalUrls = [
  "unix:/run/gatehouse/services.sock",
  "tcp://services:50052",
  "tcp://[::1]:50052",
];
const origins = ["https://app.example.com", "http://localhost:5173", "capacitor://localhost"];
const certificates = { GRPC_TLS_CERT: "own.pem", GRPC_TLS_KEY: "own.key", GRPC_TLS_CA: "ca.pem" };
const tls = { cert: "own.pem", key: "own.key", ca: "ca.pem" };
const spelled = "gatehouse:p%40se%23%2Fcret@127.0.0.1";

test.each<{ env: Record<string, string>; config: object; role?: "gateway" | "services" }>([
  { env: { DATABASE_URL: "" }, config: { database: { kind: "folder", path: "./data" } } },
  {
    env: { DATABASE_URL: "postgresql://a/b" },
    config: { database: { kind: "postgres", url: "postgresql://a/b" } },
  },
  {
    env: { DATABASE_URL: `postgres://${spelled}/a?b=c` },
    config: { database: { url: `postgres://${spelled}/a?b=c` } },
  },
  { env: { REDIS_URL: "rediss://a" }, config: { redisUrl: ["rediss://a"] } },
  { env: { REDIS_URL: `redis://${spelled}` }, config: { redisUrl: [`redis://${spelled}`] } },
  {
    env: { REDIS_URL: "redis://a:1, redis://b:2" },
    config: { redisUrl: ["redis://a:1", "redis://b:2"] },
  },
  { env: { SMTP_URL: "smtps://a" }, config: { smtpUrl: "smtps://a" } },
  { env: { SMTP_URL: `smtp://${spelled}` }, config: { smtpUrl: `smtp://${spelled}` } },
  { env: { METRICS_HOST: "10.0.0.1" }, config: { metricsHost: "10.0.0.1" } },
  { env: { LOG_LEVEL: "debug" }, config: { logLevel: "debug" } },
  {
    env: { TRUST_PROXY: "10.0.0.0/8, ::1 ,192.168.0.1" },
    config: { trustProxy: ["10.0.0.0/8", "::1", "192.168.0.1"] },
  },
  { env: { CORS_ORIGINS: `${origins}` }, config: { corsOrigins: origins } },
  {
    env: { ...SECRET, SERVICES_URL: "https://a:1/", ...certificates },
    config: { servicesUrl: "https://a:1", tls },
    role: "gateway",
  },
  { env: { SHUTDOWN_TIMEOUT: "500ms" }, config: { shutdownTimeoutMs: 500 } },
  { env: { APP_URL: "https://b.example//" }, config: { appUrl: "https://b.example" } },
  { env: { AI_TOTAL_TIMEOUT: "24d" }, config: { aiTotalTimeoutMs: 24 * 86_400_000 } },
  ...internalUrls.flatMap((url) => [
    {
      env: { ...SECRET, SERVICES_URL: url },
      config: { servicesUrl: url, internalSecret: SECRET.INTERNAL_SECRET },
      role: "gateway" as const,
    },
    {
      env: { ...SECRET, INTERNAL_URL: url },
      config: { internalUrl: url },
      role: "services" as const,
    },
  ]),
])("Configuration: reads $env", ({ env, config, role }) =>
  expect(requireConfig(env, role)).toMatchObject(config),
);

const address = "no-reply@example.com";
const names = ["Größe & Söhne, GmbH", "Acme: Accounts", "Acme (Europe)", "acme@work, again", ""];

test.each([
  ...names.map((name) => [`${name} <${address}>`, { name, address }] as const),
  [`"Acme \\"A\\", Inc." <${address}>`, { name: 'Acme "A", Inc.', address }] as const,
  [address, { name: "", address }] as const,
  ["a@bücher.example", { name: "", address: "a@xn--bcher-kva.example" }] as const,
])("Configuration: preserves the sender name %s", (MAIL_FROM, from) => {
  expect(requireConfig({ MAIL_FROM }).mailFrom).toEqual(from);
});

const production = {
  NODE_ENV: "production",
  SECRET_KEY: Buffer.alloc(32).toString("base64"),
  SMTP_URL: "smtp://a",
};
const careful = {
  PUBLIC_URL: "https://a.example",
  DATABASE_URL: "postgres://127.0.0.1/a",
  REQUIRE_ADMIN_MFA: "on",
};

test.each<{ env: Record<string, string>; warnings: string[]; nodeFlags?: ReadonlySet<string> }>([
  { env: {}, warnings: [] },
  {
    env: { ...production, GRPC_REFLECTION: "on", RATE_LIMITS: "off" },
    warnings: ["PUBLIC_URL", "RATE_LIMITS", "DATABASE_URL", "GRPC_REFLECTION", "REQUIRE_ADMIN_MFA"],
  },
  { env: { ...production, ...careful }, warnings: [] },
  { env: { HTTPS_PROXY: "http://proxy:1" }, warnings: [] },
  { env: { HTTPS_PROXY: "http://proxy:1" }, warnings: ["HTTPS_PROXY"], nodeFlags: new Set() }, // of an older Node
])(
  "Configuration: warns about $warnings with $env",
  ({ env, warnings, nodeFlags = process.allowedNodeEnvironmentFlags }) => {
    const flags = vi
      .spyOn(process, "allowedNodeEnvironmentFlags", "get")
      .mockReturnValue(nodeFlags);
    const config = requireConfig(env);
    flags.mockRestore();
    expect(config.warnings.map((warning) => warning.split(" ")[0])).toEqual(warnings);
    expect(config.grpcReflection).toBe(
      env.NODE_ENV !== "production" || env.GRPC_REFLECTION === "on",
    );
  },
);
