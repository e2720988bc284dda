import ipaddr from "ipaddr.js";
import ms from "ms";
import { z } from "zod";
import type { TlsFiles } from "../services/platform/tls.ts";

/** What the gateway reads from its environment (operations.md, variables). */
export type GatewayConfig = Readonly<{
  host: string;
  port: number;
  /** Where the services are; undefined: in this process. */
  servicesUrl: string | undefined;
  /** What the gateway shows the services, and whom it takes for them. */
  servicesTls: TlsFiles;
  /** Proves to the services that the metadata of a call comes from a gateway of theirs. */
  internalSecret: string | undefined;
  /** Where clients reach the gateway, without a trailing slash. */
  publicUrl: string;
  /** Addresses and CIDRs of proxies whose X-Forwarded-For is believed. */
  trustProxy: readonly string[];
  corsOrigins: readonly string[];
  /** Grace for open requests and streams, in milliseconds. */
  shutdownTimeoutMs: number;
  logLevel: (typeof LOG_LEVELS)[number];
  metricsPort: number | undefined;
  /** Where traces go, without a trailing slash. */
  otlpEndpoint: string | undefined;
}>;

const LOG_LEVELS = ["fatal", "error", "warn", "info", "debug", "trace", "silent"] as const;
const DEFAULT_PORT = 3000;
const MAX_PORT = 65_535;
const LONGEST_TIMER = "24d";

const isUrl = (text: string) => /^https?:\/\/[^?#]+$/i.test(text) && URL.canParse(text); // paths are put after it
const isOrigin = (text: string) => isUrl(text) && !text.includes("*") && new URL(text).origin === text;
const isNetwork = (text: string) =>
  ipaddr.isValidCIDR(text) || ipaddr.IPv4.isValidFourPartDecimal(text) || ipaddr.IPv6.isValid(text);
const milliseconds = (text: string) => ms(text as ms.StringValue);
const items = (text: string) =>
  text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");

const port = z
  .string()
  .regex(/^\d{1,5}$/)
  .transform(Number)
  .refine((n) => n <= MAX_PORT);
const url = z
  .string()
  .refine(isUrl)
  .transform((text) => text.replace(/\/+$/, ""));
const list = (isItem: (item: string) => boolean) =>
  z
    .string()
    .transform(items)
    .refine((all) => all.every(isItem));

/** Each variable and what is allowed; a bad value is never repeated, since it may be a secret. */
const variables = {
  HOST: [z.string().regex(/^[\w.:%-]+$/), "an address or a host name"],
  PORT: [port, "a port number, 0 to 65535"],
  SERVICES_URL: [url, "an http or https URL without ? and #"],
  GRPC_TLS_CERT: [z.string(), "a file"],
  GRPC_TLS_KEY: [z.string(), "a file"],
  GRPC_TLS_CA: [z.string(), "a file"],
  INTERNAL_SECRET: [z.string().regex(/^[\x21-\x7e]{16,}$/), "at least 16 printable ASCII characters without spaces"],
  PUBLIC_URL: [url, "an http or https URL without ? and #"],
  TRUST_PROXY: [list(isNetwork), "addresses or CIDRs, separated by commas"],
  CORS_ORIGINS: [list(isOrigin), "origins such as https://app.example.com, separated by commas"],
  SHUTDOWN_TIMEOUT: [
    z
      .string()
      .regex(/^(0|\d+(ms|s|m|h|d))$/)
      .transform(milliseconds)
      .refine((n) => n >= 0 && n <= milliseconds(LONGEST_TIMER)),
    `a duration such as 25s, up to ${LONGEST_TIMER}`,
  ],
  LOG_LEVEL: [z.enum(LOG_LEVELS), `one of ${LOG_LEVELS.join(", ")}`],
  OTEL_EXPORTER_OTLP_ENDPOINT: [url, "an http or https URL without ? and #"],
  METRICS_PORT: [port, "a port number, 0 to 65535"],
} as const;

type Values = { [K in keyof typeof variables]?: z.infer<(typeof variables)[K][0]> };

/**
 * Reads the gateway's variables; an empty one counts as absent.
 * @returns the frozen configuration, or every problem at once, none of which repeats a value
 */
export function readGatewayConfig(
  env: Readonly<Record<string, string | undefined>>,
): { config: GatewayConfig } | { problems: string[] } {
  const problems: string[] = [];
  const given: Record<string, unknown> = {};
  for (const [name, [schema, allowed]] of Object.entries(variables)) {
    const text = env[name]?.trim();
    if (!text) continue;
    const read = schema.safeParse(text);
    if (read.success) given[name] = read.data;
    else problems.push(`${name} must be ${allowed}`);
  }
  if (env.SERVICES_URL?.trim() && !env.INTERNAL_SECRET?.trim()) {
    problems.push("INTERNAL_SECRET is required with SERVICES_URL: the services believe no gateway without it");
  }
  if (!given.GRPC_TLS_CERT !== !given.GRPC_TLS_KEY) {
    problems.push("GRPC_TLS_CERT and GRPC_TLS_KEY must be set together");
  }
  return problems.length > 0 ? { problems } : { config: withDefaults(given as Values) };
}

function withDefaults(given: Values): GatewayConfig {
  const listenPort = given.PORT ?? DEFAULT_PORT;
  return Object.freeze({
    host: given.HOST ?? "127.0.0.1",
    port: listenPort,
    servicesUrl: given.SERVICES_URL,
    servicesTls: { cert: given.GRPC_TLS_CERT, key: given.GRPC_TLS_KEY, ca: given.GRPC_TLS_CA },
    internalSecret: given.INTERNAL_SECRET,
    publicUrl: given.PUBLIC_URL ?? `http://localhost:${listenPort}`,
    trustProxy: Object.freeze(given.TRUST_PROXY ?? []),
    corsOrigins: Object.freeze(given.CORS_ORIGINS ?? []),
    shutdownTimeoutMs: given.SHUTDOWN_TIMEOUT ?? milliseconds("25s"),
    logLevel: given.LOG_LEVEL ?? "info",
    metricsPort: given.METRICS_PORT,
    otlpEndpoint: given.OTEL_EXPORTER_OTLP_ENDPOINT,
  });
}
