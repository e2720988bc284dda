import { expect, test, vi } from "vitest";
import { configOf, problemsOf } from "../../support/config.ts";

const subject = (problem: string) => problem.split(" ")[0];

test("Configuration: has the documented defaults", () => {
  expect(configOf({})).toMatchObject({
    host: "127.0.0.1",
    port: 3000,
    servicesUrl: undefined,
    servicesTls: {},
    internalSecret: undefined,
    trustProxy: [],
    corsOrigins: [],
    docs: true,
    grpc: { host: "127.0.0.1", port: 50051, reflection: true, tls: null },
    publicUrl: "http://localhost:3000",
    appUrl: "http://localhost:3000",
    database: { kind: "folder", path: "./data" },
    migrate: true,
    redisUrls: [],
    dataDir: "./data",
    mail: { retryBaseMs: 30_000 },
    admin: null,
    accessTokenMs: 900_000,
    refreshTokenMs: 7 * 86_400_000,
    sessionMaxAgeMs: 30 * 86_400_000,
    refreshGraceMs: 10_000,
    mfaTokenMs: 300_000,
    verifyTokenMs: 86_400_000,
    resetTokenMs: 3_600_000,
    lockout: { threshold: 5, durationMs: 900_000, resetMs: 3_600_000 },
    passwordMaxAgeMs: 90 * 86_400_000,
    refuseExpiredPasswords: false,
    deletionGraceMs: 30 * 86_400_000,
    requireVerifiedEmail: false,
    rateLimits: true,
    ai: { firstByteMs: 60_000, idleMs: 60_000, totalMs: 600_000, retries: 2 },
    shutdownMs: 25_000,
    metrics: { host: "127.0.0.1", port: 0 },
    otlpEndpoint: undefined,
    logLevel: "info",
  });
});

test("Services configuration: reports every bad variable at once and no secret's value", () => {
  const wrong = {
    GRPC_PORT: "99999",
    NODE_ENV: "Production ",
    APP_NAME: "secret-name\nBcc: secret-address",
    DATABASE_URL: "mysql://secret-user:secret-pass@host/db",
    SECRET_KEY: "secret-too-short",
    ACCESS_TOKEN_TTL: "soon",
    PASSWORD_EXPIRY: "maybe",
    SMTP_URL: "secret-nonsense",
    MAIL_FROM: "secret nonsense",
    REDIS_URL: "http://secret-host",
  };
  const problems = problemsOf(wrong);
  expect(problems.map(subject).sort()).toEqual(Object.keys(wrong).sort());
  expect(problems.join()).not.toContain("secret-");
});

test("Services configuration: refuses durations beyond the range of timers", () => {
  const endless = { AI_TOTAL_TIMEOUT: "25d", SHUTDOWN_TIMEOUT: "25d", DELETION_GRACE: "36501d" };
  expect(problemsOf(endless).map(subject)).toEqual(["SHUTDOWN_TIMEOUT", "DELETION_GRACE", "AI_TOTAL_TIMEOUT"]);
  const dead = { ACCESS_TOKEN_TTL: "0", MFA_TOKEN_TTL: "999ms", AI_IDLE_TIMEOUT: "0" };
  expect(problemsOf(dead).map(subject)).toEqual(["ACCESS_TOKEN_TTL", "MFA_TOKEN_TTL", "AI_IDLE_TIMEOUT"]);
  const unarmed = { MAIL_RETRY_BASE: "0", LOCKOUT_RESET: "0" }; // no pause between retries, no lock
  expect(problemsOf(unarmed).map(subject)).toEqual(Object.keys(unarmed));
  expect(configOf({ PASSWORD_MAX_AGE: "0", REFRESH_GRACE: "0", AI_TOTAL_TIMEOUT: "24d" })).toMatchObject({
    passwordMaxAgeMs: 0,
    refreshGraceMs: 0,
    ai: { totalMs: 24 * 86_400_000 },
  });
});

test("Services configuration: applies the rules of registration to the first administrator, whatever else is wrong", () => {
  expect(problemsOf({ ADMIN_EMAIL: "root@example.com", ADMIN_PASSWORD: "secret" })).toEqual([
    "ADMIN_PASSWORD must be 8 to 128 characters, must contain an uppercase letter, must contain a digit, must contain a special character",
  ]);
  const both = { ADMIN_EMAIL: "secret-address", ADMIN_PASSWORD: "secret-word", LOG_LEVEL: "loud" };
  expect(problemsOf(both).map(subject)).toEqual(["LOG_LEVEL", "ADMIN_EMAIL", "ADMIN_PASSWORD"]);
  expect(problemsOf(both).join()).not.toContain("secret");
  expect(configOf({ ADMIN_EMAIL: "root@example.com", ADMIN_PASSWORD: "Correct-horse-1" }).admin).toEqual({
    email: "root@example.com",
    password: "Correct-horse-1",
  });
});

test("Services configuration: refuses a URL whose password is ambiguous", () => {
  for (const part of ["se#cret", "se/cret", "se%cret", "p@se#cret", "p@se/cret", "12#cret", "12/cret", "12?cret"]) {
    const problems = problemsOf({
      DATABASE_URL: `postgres://gatehouse:${part}@127.0.0.1/gatehouse`,
      REDIS_URL: `redis://127.0.0.1, redis://:${part}@127.0.0.1`,
      SMTP_URL: `smtp://gatehouse:${part}@127.0.0.1`,
    });
    expect(problems.map(subject).sort()).toEqual(["DATABASE_URL", "REDIS_URL", "SMTP_URL"]);
    expect(problems.join()).not.toContain("cret");
  }
  const spelled = "gatehouse:p%40se%23%2Fcret@127.0.0.1";
  configOf({
    DATABASE_URL: `postgres://${spelled}/gatehouse?a=b`,
    REDIS_URL: `redis://${spelled}`,
    SMTP_URL: `smtp://${spelled}`,
  });
});

test("Services configuration: refuses a URL with surrounding blanks", () => {
  const blank = { PUBLIC_URL: "https://a.example ", APP_URL: " https://b.example", DATABASE_URL: "postgres://a/b " };
  expect(problemsOf(blank).map(subject)).toEqual(Object.keys(blank));
});

test("Services configuration: keeps the name of a sender, and requires an address that every mail server accepts", () => {
  const senderOf = (MAIL_FROM: string) => configOf({ MAIL_FROM }).mail.from;
  const address = "no-reply@example.com";
  for (const name of ["Größe & Söhne, GmbH", "Acme: Accounts", "Acme (Europe)", "acme@work, again", ""]) {
    expect(senderOf(`${name} <${address}>`)).toEqual({ name, address });
  }
  expect(senderOf(`"Acme \\"A\\", Inc." <${address}>`)).toEqual({ name: 'Acme "A", Inc.', address });
  expect(senderOf(address)).toEqual({ name: "", address });
  expect(senderOf("a@bücher.example")).toEqual({ name: "", address: "a@xn--bcher-kva.example" });
  for (const wrong of [
    "Acme",
    "grüße@example.com",
    "a@b, c@d",
    "a@b <c@d",
    "<a@b> c",
    "a@b@c",
    "A <a b@c.de>",
    "a@%40",
  ]) {
    expect(problemsOf({ MAIL_FROM: wrong })).toEqual([expect.stringMatching(/^MAIL_FROM must be an address such as/)]);
  }
});

test("Services configuration: requires the variables of a production deployment", () => {
  const SECRET_KEY = Buffer.alloc(32).toString("base64");
  const careless = { NODE_ENV: "production", SECRET_KEY, SMTP_URL: "smtp://127.0.0.1" };
  expect(problemsOf({ NODE_ENV: "production" })).toEqual([
    expect.stringContaining("SECRET_KEY"),
    expect.stringContaining("SMTP_URL"),
  ]);
  expect(configOf(careless).grpc.reflection).toBe(false);
  const warned = configOf({ ...careless, GRPC_REFLECTION: "on", RATE_LIMITS: "off" }).warnings;
  expect(warned.map((warning) => warning.split(" ")[0])).toEqual([
    "PUBLIC_URL",
    "RATE_LIMITS",
    "DATABASE_URL",
    "GRPC_REFLECTION",
    "REQUIRE_ADMIN_MFA",
  ]);
  const careful = { PUBLIC_URL: "https://a.example", DATABASE_URL: "postgres://127.0.0.1/a", REQUIRE_ADMIN_MFA: "on" };
  expect(configOf({ ...careless, ...careful }).warnings).toEqual([]);
  expect(configOf({}).warnings).toEqual([]);
  const flags = vi.spyOn(process, "allowedNodeEnvironmentFlags", "get").mockReturnValue(new Set()); // of an older Node
  expect(configOf({ HTTPS_PROXY: "http://proxy:1" }).warnings).toEqual([expect.stringContaining("has no effect")]);
  flags.mockRestore();
  expect(configOf({ HTTPS_PROXY: "http://proxy:1" }).warnings).toEqual([]);
  expect(problemsOf({}, "services")).toEqual([expect.stringContaining("INTERNAL_SECRET")]);
  expect(problemsOf({ DATABASE_URL: "postgres://127.0.0.1" })).toEqual([expect.stringContaining("/database")]);
  expect(problemsOf({ ADMIN_EMAIL: "a@b.de" })).toEqual([expect.stringContaining("ADMIN_PASSWORD")]);
  for (const half of [{ GRPC_TLS_CERT: "own.pem" }, { GRPC_TLS_KEY: "own.key" }])
    expect(problemsOf(half)).toEqual(["GRPC_TLS_CERT and GRPC_TLS_KEY must be set together"]);
  expect(problemsOf({ GRPC_TLS_CA: "ca.pem" })).toEqual([expect.stringContaining("GRPC_TLS_CERT")]);
  expect(problemsOf({ REFRESH_TOKEN_TTL: "31d" })).toEqual([expect.stringContaining("SESSION_MAX_AGE")]);
});

test("Services configuration: treats an empty variable as absent, and is frozen", () => {
  const config = configOf({ DATABASE_URL: "", REDIS_URL: "" });
  expect(config.database).toEqual({ kind: "folder", path: "./data" });
  expect(Object.isFrozen(config)).toBe(true);
  expect(Object.isFrozen(configOf({ TRUST_PROXY: "::1" }).trustProxy)).toBe(true);
});

test("Services configuration: accepts addresses in either spelling, and removes the last slash of page addresses", () => {
  const tls = { DATABASE_URL: "postgresql://a/b", REDIS_URL: "rediss://a", SMTP_URL: "smtps://a" };
  expect(configOf({ ...tls, PUBLIC_URL: "https://a.example/", APP_URL: "https://b.example//" })).toMatchObject({
    publicUrl: "https://a.example",
    appUrl: "https://b.example",
  });
});

test("Services configuration: reads several Redis URLs as a cluster", () => {
  expect(configOf({ REDIS_URL: "redis://a:1, redis://b:2" }).redisUrls).toEqual(["redis://a:1", "redis://b:2"]);
});
