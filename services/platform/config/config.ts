import { isIP } from "node:net";
import { create } from "@bufbuild/protobuf";
import type { z } from "zod";
import { RegisterRequestSchema } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { plainAddress } from "../gate/address.ts";
import { violationsOf } from "../rpc/validation.ts";
import { variableOf, variablesOf } from "./config-kinds.ts";
import { commonVariables, gatewayVariables, servicesVariables } from "./variables.ts";

/**
 * What a process runs: gateway and services, the gateway alone, the services alone, or an operator
 * command, which can use the settings of any of them.
 */
export type ProcessRole = "all" | "gateway" | "services" | "command";

/**
 * The settings of a process, named after their variables, and values derived from them. Durations
 * are in ms.
 */
export type Config = Readonly<ReturnType<typeof toConfig>>;

/** Variables that are set and not blank. */
type Env = Record<string, string>;
type Environment = Record<string, string | undefined>;

const all = { ...commonVariables, ...gatewayVariables, ...servicesVariables };
const ofServices = { ...commonVariables, port: gatewayVariables.port, ...servicesVariables };
const gateway = { ...commonVariables, ...gatewayVariables };
const groups = { all, gateway, services: ofServices, command: ofServices };
const ownVariables = new Set(
  Object.entries(all).flatMap(([name, schema]) => variablesOf(name, schema)),
);
type Values = { [K in keyof typeof all]: z.output<(typeof all)[K]> };

/**
 * Reads the settings.
 * @throws Error listing all problems
 */
export function requireConfig(environment: Environment, role?: ProcessRole): Config {
  const { config, problems } = readConfig(environment, role);
  if (problems.length > 0) throw new Error(problems.join("\n"));
  return config;
}

/**
 * Reads the environment. A blank variable counts as not set. Variables of the side that does not
 * run in this process are ignored.
 * @returns the frozen settings and all problems. Problems never quote a value, which may be a
 * secret. An invalid setting gets its default, so that the files that settings name can be checked
 * too.
 */
export function readConfig(environment: Environment, role: ProcessRole = "all") {
  const isSet = (entry: [string, string | undefined]): entry is [string, string] =>
    Boolean(entry[1]?.trim());
  const env: Env = Object.fromEntries(Object.entries(environment).filter(isSet));
  const problems: string[] = [];
  const read = ([name, schema]: [string, z.ZodType]) => {
    const names = variablesOf(name, schema);
    const variable = names.find((each) => each in env) ?? variableOf(name);
    const given = names.includes(variable) && name in groups[role] ? env[variable] : undefined;
    const { data, error } = schema.safeParse(given);
    if (error) problems.push(`${variable} ${error.issues[0]?.message}`);
    return [name, error ? schema.parse(undefined) : data];
  };
  const values: Values = Object.fromEntries(Object.entries(all).map(read));
  if (role !== "command") problems.push(...crossChecks(env, values, role));
  return { config: Object.freeze(toConfig(values, env)), problems };
}

/** Problems that involve several variables. */
function crossChecks(env: Env, values: Values, role: ProcessRole): string[] {
  const isGateway = role === "gateway";
  const isProduction = env.NODE_ENV === "production" && !isGateway;
  const isTls = /^tls:/i.test(values.internalUrl ?? "");
  return [
    isGateway &&
      !env.SERVICES_URL &&
      "SERVICES_URL must be set for a standalone gateway: it is the URL of the services",
    role === "services" &&
      env.SERVICES_URL &&
      "SERVICES_URL must not be set for standalone services: only gateways use it",
    role !== "all" &&
      !env.INTERNAL_SECRET &&
      "INTERNAL_SECRET must be set when gateway and services run in separate processes",
    role === "all" &&
      env.INTERNAL_URL &&
      "INTERNAL_URL may only be set for standalone services: gateways connect to it",
    isTls && !env.GRPC_TLS_CERT && "GRPC_TLS_CERT must be set when INTERNAL_URL is tls://",
    !env.GRPC_TLS_CERT !== !env.GRPC_TLS_KEY &&
      "GRPC_TLS_CERT and GRPC_TLS_KEY must be set together",
    isProduction && !env.SECRET_KEY && "SECRET_KEY must be set when NODE_ENV is production",
    isProduction && !env.SMTP_URL && "SMTP_URL must be set when NODE_ENV is production",
    !isGateway &&
      env.GRPC_TLS_CA &&
      !env.GRPC_TLS_CERT &&
      "GRPC_TLS_CA must be set with GRPC_TLS_CERT",
    lacksPartOfLogin(values.smtpUrl) && "SMTP_URL must have both a user and a password, or neither",
    workersProblem(values, role),
    ...(isGateway ? [] : adminProblems(env)),
    values.refreshTokenTtlMs > values.sessionMaxAgeMs &&
      "REFRESH_TOKEN_TTL must not exceed SESSION_MAX_AGE",
  ].filter((problem) => typeof problem === "string");
}

/** Whether a URL has a user without a password, or the reverse: no e-mail could be sent with it. */
function lacksPartOfLogin(url: string | undefined): boolean {
  if (url === undefined) return false;
  const { username, password } = new URL(url);
  return (username === "") !== (password === "");
}

/**
 * The problem if workers have no shared database or Redis. A standalone gateway has no database.
 */
function workersProblem(values: Values, role: ProcessRole): string | false {
  const lacksDatabase = role !== "gateway" && databaseLocation(values).kind !== "postgres";
  const missing = [lacksDatabase && "DATABASE_URL", !values.redisUrl && "REDIS_URL"];
  const names = missing.filter((name) => typeof name === "string").join(" and ");
  return (
    values.workers > 1 &&
    names !== "" &&
    `WORKERS needs ${names}: more than one worker must share a PostgreSQL server and Redis`
  );
}

/** Validates the first administrator with the rules of registration. */
function adminProblems({ ADMIN_EMAIL: email, ADMIN_PASSWORD: password }: Env): string[] {
  if (!email && !password) return [];
  if (!email || !password) return ["ADMIN_EMAIL and ADMIN_PASSWORD must be set together"];
  const account = create(RegisterRequestSchema, {
    email,
    password,
    name: "Administrator",
    acceptTerms: true,
  });
  const byField = Map.groupBy(violationsOf(RegisterRequestSchema, account), ({ field }) => field);
  return [...byField].map(
    ([field, violations]) =>
      `ADMIN_${field.toUpperCase()} ${violations.map(({ message }) => message).join(", ")}`,
  );
}

function databaseLocation({ databaseUrl: url, dataDir: path }: Values) {
  if (url === "memory:") return { kind: "memory" as const };
  return url ? { kind: "postgres" as const, url } : { kind: "folder" as const, path };
}

/** Warnings for the operator, most of them about production deployments. */
function warningsOf(v: Values): string[] {
  const hasProxies = process.allowedNodeEnvironmentFlags.has("--use-env-proxy"); // added together with the `proxyEnv` option of agents
  const inProduction = [
    !v.publicUrl?.startsWith("https:") &&
      "PUBLIC_URL is not https: browsers send cookies and passwords unencrypted",
    !v.rateLimits && "RATE_LIMITS is off: passwords can be guessed as fast as the machine allows",
    databaseLocation(v).kind !== "postgres" &&
      "DATABASE_URL is not set: the embedded database is not meant for production",
    v.grpcReflection && "GRPC_REFLECTION is on: it lists every method to anyone",
    !v.requireAdminMfa &&
      "REQUIRE_ADMIN_MFA is off: administrators can sign in without a second factor",
  ];
  return [
    (v.httpsProxy || v.httpProxy) &&
      !hasProxies &&
      "HTTPS_PROXY and http_proxy have no effect in this version of Node: they require Node 22.21 or 24.5",
    ...(v.nodeEnv === "production" ? inProduction : []),
  ].filter((warning) => typeof warning === "string");
}

/**
 * The relying party of passkeys: its RP id, and the origins that may use them. Undefined if the
 * host is an IP address, which browsers reject.
 */
function relyingPartyOf(
  { passkeyRpId, passkeyOrigins }: Values,
  { appUrl, publicUrl }: { appUrl: string; publicUrl: string },
) {
  const { hostname, origin } = new URL(appUrl);
  const id = passkeyRpId ?? hostname;
  if (isIP(plainAddress(id)) !== 0) return undefined;
  const own = new URL(publicUrl);
  const isBelow = own.hostname === id || own.hostname.endsWith(`.${id}`);
  const origins = [origin, ...(isBelow ? [own.origin] : []), ...passkeyOrigins];
  return Object.freeze({ id, origins: Object.freeze([...new Set(origins)]) });
}

/** Adds values derived from several settings, and defaults that depend on other settings. */
function toConfig(values: Values, env: Env) {
  const {
    port,
    nodeEnv,
    publicUrl = `http://localhost:${port}`,
    adminEmail: email,
    adminPassword: password,
  } = values;
  const appUrl = values.appUrl ?? publicUrl;
  return {
    ...values,
    publicUrl,
    appUrl,
    mfaIssuer: values.mfaIssuer ?? values.appName,
    mailFrom: values.mailFrom ?? { name: values.appName, address: "no-reply@localhost" },
    /** The relying party of passkeys; undefined if passkeys are off. */
    relyingParty: relyingPartyOf(values, { appUrl, publicUrl }),
    /** The pages that may receive the response of a sign-in provider. The first one is our own. */
    externalPages: Object.freeze([`${appUrl}/external`, ...values.externalReturnUrls]),
    grpcReflection: values.grpcReflection ?? nodeEnv !== "production",
    passwordBlocklist: values.passwordBlocklist ?? nodeEnv === "production",
    /** TLS files of the gRPC port, or of a standalone gateway. */
    tls: { cert: values.grpcTlsCert, key: values.grpcTlsKey, ca: values.grpcTlsCa },
    database: databaseLocation(values),
    /** Proxies for outgoing requests, under the names that Node's agents read. */
    proxies: {
      HTTPS_PROXY: values.httpsProxy,
      HTTP_PROXY: values.httpProxy,
      NO_PROXY: values.noProxy,
    },
    admin: email && password ? { email, password } : null,
    /** Variables that a catalogue may name for keys and base URLs: all except our own. */
    catalogueVariables: Object.fromEntries(
      Object.entries(env).filter(([name]) => !ownVariables.has(name)),
    ),
    /** Logged at startup. */
    warnings: warningsOf(values),
  };
}
