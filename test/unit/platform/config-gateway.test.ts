import { expect, test } from "vitest";
import { configOf, problemsOf } from "../../support/config.ts";

const subject = (problem: string) => problem.split(" ")[0];

test("Gateway configuration: reads every variable, and treats an empty one as absent", () => {
  expect(
    configOf(
      {
        HOST: "0.0.0.0",
        PORT: "8080",
        SERVICES_URL: "https://services:50051/",
        GRPC_TLS_CERT: "own.pem",
        GRPC_TLS_KEY: "own.key",
        GRPC_TLS_CA: "ca.pem",
        INTERNAL_SECRET: "between-the-two-of-us",
        PUBLIC_URL: "https://api.example.com/",
        OTEL_EXPORTER_OTLP_ENDPOINT: "",
        TRUST_PROXY: "10.0.0.0/8, ::1 ,192.168.0.1",
        CORS_ORIGINS: "https://app.example.com,http://localhost:5173,capacitor://localhost",
        SHUTDOWN_TIMEOUT: "500ms",
        LOG_LEVEL: "debug",
        METRICS_HOST: "10.0.0.1",
        METRICS_PORT: "9464",
        DOCS: "off",
      },
      "gateway",
    ),
  ).toMatchObject({
    host: "0.0.0.0",
    port: 8080,
    servicesUrl: "https://services:50051",
    servicesTls: { cert: "own.pem", key: "own.key", ca: "ca.pem" },
    internalSecret: "between-the-two-of-us",
    publicUrl: "https://api.example.com",
    trustProxy: ["10.0.0.0/8", "::1", "192.168.0.1"],
    corsOrigins: ["https://app.example.com", "http://localhost:5173", "capacitor://localhost"],
    shutdownMs: 500,
    logLevel: "debug",
    metrics: { host: "10.0.0.1", port: 9464 },
    docs: false,
  });
});

test("Gateway configuration: reports every mistake at once with what is allowed, and no value", () => {
  const wrong = {
    LOG_LEVEL: "loud",
    PUBLIC_URL: "hidden",
    TRUST_PROXY: "true",
    INTERNAL_SECRET: "hidden with spaces",
    METRICS_PORT: "-1",
    SHUTDOWN_TIMEOUT: "soon",
    HOST: "hidden host",
    PORT: "70000",
    SERVICES_URL: "ftp://hidden",
    CORS_ORIGINS: "https://hidden.example.com/path",
  };
  const problems = problemsOf(wrong, "gateway");
  expect(problems.map(subject)).toEqual(Object.keys(wrong));
  expect(problems.join()).not.toContain("hidden");
});

test("Gateway configuration: requires a secret between a gateway and services that run apart", () => {
  const missing = expect.stringMatching(/^INTERNAL_SECRET /);
  expect(problemsOf({ SERVICES_URL: "http://services:50051" }, "gateway")).toEqual([missing]);
  expect(problemsOf({ SERVICES_URL: "nonsense" }, "gateway")).toEqual([
    expect.stringMatching(/^SERVICES_URL /),
    missing,
  ]);
});

test("Gateway configuration: takes the address of an internal listener, which only services alone have", () => {
  const secret = { INTERNAL_SECRET: "between-the-two-of-us" };
  for (const url of ["unix:/run/gatehouse/services.sock", "tcp://services:50052", "tcp://[::1]:50052"]) {
    expect(configOf({ ...secret, SERVICES_URL: url }, "gateway").servicesUrl).toBe(url);
    expect(configOf({ ...secret, INTERNAL_URL: url }, "services").internalUrl).toBe(url);
    expect(problemsOf({ INTERNAL_URL: url })).toEqual([expect.stringMatching(/^INTERNAL_URL must be set for the /)]);
  }
  const tls = { ...secret, INTERNAL_URL: "tls://0.0.0.0:50052" };
  expect(problemsOf(tls, "services")).toEqual(["GRPC_TLS_CERT must be set when INTERNAL_URL is tls://"]);
  for (const url of ["unix:services.sock", "tcp://services", "http://services:50051", "tcp://services:1/path"]) {
    expect(problemsOf({ ...secret, INTERNAL_URL: url }, "services")).toEqual([
      expect.stringMatching(/^INTERNAL_URL must /),
    ]);
  }
});

test("Gateway configuration: requires SERVICES_URL for a gateway alone, and refuses it for the services alone", () => {
  const secret = { INTERNAL_SECRET: "between-the-two-of-us" };
  expect(problemsOf(secret, "gateway")).toEqual([expect.stringMatching(/^SERVICES_URL must be set /)]);
  const both = { ...secret, SERVICES_URL: "http://services:50051" };
  expect(problemsOf(both, "services")).toEqual([expect.stringMatching(/^SERVICES_URL must not be set /)]);
  expect(problemsOf(both, "gateway")).toEqual([]);
});

test("Gateway configuration: a gateway alone reads no variables of the services", () => {
  const env = { SERVICES_URL: "http://services:50051", INTERNAL_SECRET: "between-the-two-of-us", GRPC_PORT: "none" };
  expect(configOf({ ...env, NODE_ENV: "production" }, "gateway").grpc.port).toBe(50051);
});

test.each(
  `TRUST_PROXY=10.1.2 TRUST_PROXY=10/8 TRUST_PROXY=::ffff:10.0.0.0/104 TRUST_PROXY=10.0.0.0/33 TRUST_PROXY=10.0.0.0/
  PUBLIC_URL=https://a:secret@app.example.com APP_URL=https://a@app.example.com
  PUBLIC_URL=https://app.example.com/?x=1 PUBLIC_URL=https:app.example.com SMTP_URL=smtp:mail.example.com:25
  DATABASE_URL=postgres:host/base REDIS_URL=, SECRET_KEY=, SERVICES_URL=tcp://services:99999 SHUTDOWN_TIMEOUT=25
  SHUTDOWN_TIMEOUT=25d INTERNAL_SECRET=short CORS_ORIGINS=* CORS_ORIGINS=https://*.example.com CORS_ORIGINS=null CORS_ORIGINS=app.example.com`.split(
    /\s+/,
  ),
)("Gateway configuration: refuses %s", (setting) => {
  const [name = "", value] = setting.split(/=(.*)/);
  expect(problemsOf({ [name]: value })).toEqual([expect.stringMatching(`^(?!.*secret@).*${name}`)]);
});
