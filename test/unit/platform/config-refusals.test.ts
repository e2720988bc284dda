import { expect, test } from "vitest";
import { readConfig } from "../../../services/platform/config/config.ts";

const subject = (problem: string) => problem.split(" ")[0];

test.each(
  `TRUST_PROXY=10.1.2 TRUST_PROXY=10/8 TRUST_PROXY=::ffff:10.0.0.0/104 TRUST_PROXY=10.0.0.0/33 TRUST_PROXY=10.0.0.0/
  PUBLIC_URL=https://a:hidden@app.example.com APP_URL=https://a@app.example.com
  PUBLIC_URL=https://app.example.com/?x=1 PUBLIC_URL=https:app.example.com SMTP_URL=smtp:mail.example.com:25
  DATABASE_URL=postgres:host/base DATABASE_URL=postgres://127.0.0.1 REDIS_URL=, SECRET_KEY=, SERVICES_URL=tcp://services:99999
  SHUTDOWN_TIMEOUT=25 SHUTDOWN_TIMEOUT=25d AI_TOTAL_TIMEOUT=25d DELETION_GRACE=36501d REFRESH_TOKEN_TTL=31d
  ACCESS_TOKEN_TTL=0 MFA_TOKEN_TTL=999ms AI_IDLE_TIMEOUT=0 MAIL_RETRY_BASE=0 LOCKOUT_RESET=0 LOCKOUT_THRESHOLD=0 AI_RETRIES=11
  INTERNAL_SECRET=short CORS_ORIGINS=* CORS_ORIGINS=https://*.example.com CORS_ORIGINS=null CORS_ORIGINS=app.example.com
  MAIL_FROM=Acme MAIL_FROM=grüße@example.com MAIL_FROM=a@b@c MAIL_FROM=a@%40
  GRPC_TLS_CERT=own.pem GRPC_TLS_KEY=own.key GRPC_TLS_CA=ca.pem ADMIN_EMAIL=a@b.de PORT=70000 METRICS_PORT=-1 GRPC_PORT=99999
  PUBLIC_URL=hidden CORS_ORIGINS=https://hidden.example.com/path DATABASE_URL=mysql://hidden:hidden@host/db
  SECRET_KEY=hidden-too-short SERVICES_URL=ftp://hidden SMTP_URL=hidden-nonsense REDIS_URL=http://hidden-host
  LOG_LEVEL=loud TRUST_PROXY=true SHUTDOWN_TIMEOUT=soon ACCESS_TOKEN_TTL=soon PASSWORD_EXPIRY=maybe`
    .split(/\s+/)
    .concat(
      "MAIL_FROM=a@b, c@d",
      "MAIL_FROM=a@b <c@d",
      "MAIL_FROM=<a@b> c",
      "MAIL_FROM=A <a b@c.de>",
    )
    .concat(
      "PUBLIC_URL=https://a.example ",
      "APP_URL= https://b.example",
      "DATABASE_URL=postgres://a/b ",
    )
    .concat(
      "NODE_ENV=Production ",
      "HOST=hidden host",
      "INTERNAL_SECRET=hidden with spaces",
      "MAIL_FROM=hidden nonsense",
    )
    .concat("APP_NAME=hidden\nBcc: hidden", "TOKEN_METADATA=plan;hidden"),
)("Configuration: rejects %s, without showing it", (setting) => {
  const [name = "", value] = setting.split(/=(.*)/s);
  expect(readConfig({ [name]: value }).problems).toEqual([
    expect.stringMatching(`^(?!.*hidden).*${name}`),
  ]);
});

test.each([
  "se#cret",
  "se/cret",
  "se%cret",
  "p@se#cret",
  "p@se/cret",
  "12#cret",
  "12/cret",
  "12?cret",
])("Configuration: rejects URLs with the ambiguous password %s, without showing it", (password) => {
  const { problems } = readConfig({
    DATABASE_URL: `postgres://gatehouse:${password}@127.0.0.1/gatehouse`,
    REDIS_URL: `redis://127.0.0.1, redis://:${password}@127.0.0.1`,
    SMTP_URL: `smtp://gatehouse:${password}@127.0.0.1`,
  });
  expect(problems.map(subject).sort()).toEqual(["DATABASE_URL", "REDIS_URL", "SMTP_URL"]);
  expect(problems.join()).not.toContain("cret");
});

const secret = { INTERNAL_SECRET: "between-the-two-of-us" };
const SERVICES_URL = "http://services:50051";
const unusable = ["unix:services.sock", "tcp://services", SERVICES_URL, "tcp://services:1/path"];

type Refusal = {
  role: "all" | "gateway" | "services";
  env: Record<string, string>;
  problems: RegExp[];
};

test.each<Refusal>([
  { role: "gateway", env: { SERVICES_URL }, problems: [/^INTERNAL_SECRET /] },
  {
    role: "gateway",
    env: { SERVICES_URL: "nonsense" },
    problems: [/^SERVICES_URL /, /^INTERNAL_SECRET /],
  },
  { role: "gateway", env: secret, problems: [/^SERVICES_URL must be set /] },
  {
    role: "gateway",
    env: { ...secret, SERVICES_URL, GRPC_PORT: "none", NODE_ENV: "production" },
    problems: [],
  }, // no variable of the services
  {
    role: "services",
    env: { ...secret, SERVICES_URL },
    problems: [/^SERVICES_URL must not be set /],
  },
  { role: "services", env: {}, problems: [/INTERNAL_SECRET/] },
  {
    role: "services",
    env: { ...secret, INTERNAL_URL: "tls://0.0.0.0:50052" },
    problems: [/^GRPC_TLS_CERT must be set when INTERNAL_URL is tls:\/\/$/],
  },
  ...unusable.map(
    (url): Refusal => ({
      role: "services",
      env: { ...secret, INTERNAL_URL: url },
      problems: [/^INTERNAL_URL must /],
    }),
  ),
  {
    role: "all",
    env: { INTERNAL_URL: "tcp://services:50052" },
    problems: [/^INTERNAL_URL may only be set for standalone services/],
  },
  { role: "all", env: { NODE_ENV: "production" }, problems: [/SECRET_KEY/, /SMTP_URL/] },
  ...["user@mail", ":password@mail"].map(
    (host): Refusal => ({
      role: "all",
      env: { SMTP_URL: `smtp://${host}` },
      problems: [/^SMTP_URL must have both a user and a password/],
    }),
  ),
  { role: "all", env: { DATABASE_URL: "postgres://127.0.0.1" }, problems: [/\/database/] },
  { role: "all", env: { REFRESH_TOKEN_TTL: "31d" }, problems: [/SESSION_MAX_AGE/] },
  {
    role: "all",
    env: { GRPC_TLS_KEY: "own.key" },
    problems: [/^GRPC_TLS_CERT and GRPC_TLS_KEY must be set together$/],
  },
  {
    role: "all",
    env: { ADMIN_EMAIL: "hidden", ADMIN_PASSWORD: "short" },
    problems: [/^ADMIN_EMAIL (?!.*hidden)/, /^ADMIN_PASSWORD /],
  },
  { role: "all", env: { MAIL_FROM: "Acme" }, problems: [/^MAIL_FROM must be an address such as/] },
])("Configuration of $role: reports the problems of $env", ({ role, env, problems }) => {
  expect(readConfig(env, role).problems).toEqual(
    problems.map((problem) => expect.stringMatching(problem)),
  );
});

/** What Kubernetes sets in pods beside services with these names. */
test.each([
  { name: "GRPC_PORT", link: "tcp://10.96.0.7:50051" },
  { name: "METRICS_PORT", link: "tcp://10.96.0.8:9464" },
  { name: "PORT", link: "udp://10.96.0.9:53" },
  { name: "GRPC_PORT", link: "TCP://[fd00::7]:50051" },
])("Configuration: names Kubernetes as the cause of $name=$link", ({ name, link }) => {
  const { problems } = readConfig({ [name]: link });
  expect(problems).toEqual([
    expect.stringMatching(`^${name} .*Kubernetes.*enableServiceLinks: false`),
  ]);
  expect(problems.join()).not.toContain("10.96");
});
