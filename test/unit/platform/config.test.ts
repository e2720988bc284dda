import { expect, test, vi } from "vitest";
import { requireConfig } from "../../../services/platform/config/config.ts";

const SECRET = { INTERNAL_SECRET: "between-the-two-of-us" };

/**
 * `docs/configuration.md` lists the others. It is generated from the tables that give the defaults.
 */
test("Configuration: has defaults that follow from other variables, and is frozen", () => {
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

test.each<[env: Record<string, string>, config: object, role?: "gateway" | "services"]>([
  [{ DATABASE_URL: "" }, { database: { kind: "folder", path: "./data" } }],
  [
    { DATABASE_URL: "postgresql://a/b" },
    { database: { kind: "postgres", url: "postgresql://a/b" } },
  ],
  [
    { DATABASE_URL: `postgres://${spelled}/a?b=c` },
    { database: { url: `postgres://${spelled}/a?b=c` } },
  ],
  [{ REDIS_URL: "rediss://a" }, { redisUrl: ["rediss://a"] }],
  [{ REDIS_URL: `redis://${spelled}` }, { redisUrl: [`redis://${spelled}`] }],
  [{ REDIS_URL: "redis://a:1, redis://b:2" }, { redisUrl: ["redis://a:1", "redis://b:2"] }],
  [{ SMTP_URL: "smtps://a" }, { smtpUrl: "smtps://a" }],
  [{ SMTP_URL: `smtp://${spelled}` }, { smtpUrl: `smtp://${spelled}` }],
  [{ METRICS_HOST: "10.0.0.1" }, { metricsHost: "10.0.0.1" }],
  [{ LOG_LEVEL: "debug" }, { logLevel: "debug" }],
  [
    { TRUST_PROXY: "10.0.0.0/8, ::1 ,192.168.0.1" },
    { trustProxy: ["10.0.0.0/8", "::1", "192.168.0.1"] },
  ],
  [{ CORS_ORIGINS: `${origins}` }, { corsOrigins: origins }],
  [
    { ...SECRET, SERVICES_URL: "https://a:1/", ...certificates },
    { servicesUrl: "https://a:1", tls },
    "gateway",
  ],
  [{ SHUTDOWN_TIMEOUT: "500ms" }, { shutdownTimeoutMs: 500 }],
  [{ APP_URL: "https://b.example//" }, { appUrl: "https://b.example" }],
  [{ AI_TOTAL_TIMEOUT: "24d" }, { aiTotalTimeoutMs: 24 * 86_400_000 }],
  ...internalUrls.flatMap((url): [Record<string, string>, object, "gateway" | "services"][] => [
    [
      { ...SECRET, SERVICES_URL: url },
      { servicesUrl: url, internalSecret: SECRET.INTERNAL_SECRET },
      "gateway",
    ],
    [{ ...SECRET, INTERNAL_URL: url }, { internalUrl: url }, "services"],
  ]),
])("Configuration: reads %j", (env, config, role) =>
  expect(requireConfig(env, role)).toMatchObject(config),
);

const address = "no-reply@example.com";
const names = ["Größe & Söhne, GmbH", "Acme: Accounts", "Acme (Europe)", "acme@work, again", ""];

test.each([
  ...names.map((name) => [`${name} <${address}>`, { name, address }] as const),
  [`"Acme \\"A\\", Inc." <${address}>`, { name: 'Acme "A", Inc.', address }] as const,
  [address, { name: "", address }] as const,
  ["a@bücher.example", { name: "", address: "a@xn--bcher-kva.example" }] as const,
])("Configuration: keeps the name of the sender %s", (MAIL_FROM, from) => {
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

test.each<[env: Record<string, string>, warnings: string[], nodeFlags?: ReadonlySet<string>]>([
  [{}, []],
  [
    { ...production, GRPC_REFLECTION: "on", RATE_LIMITS: "off" },
    ["PUBLIC_URL", "RATE_LIMITS", "DATABASE_URL", "GRPC_REFLECTION", "REQUIRE_ADMIN_MFA"],
  ],
  [{ ...production, ...careful }, []],
  [{ HTTPS_PROXY: "http://proxy:1" }, []],
  [{ HTTPS_PROXY: "http://proxy:1" }, ["HTTPS_PROXY"], new Set()], // of an older Node
])(
  "Configuration: warns of %j by %j",
  (env, warnings, nodeFlags = process.allowedNodeEnvironmentFlags) => {
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
