import { randomUUID, timingSafeEqual } from "node:crypto";
import { BlockList, isIP, isIPv6 } from "node:net";
import { unescape as percentDecoded } from "node:querystring";
import type { FastifyRequest } from "fastify";
import ipaddr from "ipaddr.js";
import type { Logger } from "pino";

/**
 * Metadata between the gateway and the services. Those about the client count only together with
 * the secret.
 */
export const SECRET = "x-gatehouse-secret";
const CLIENT_ADDRESS = "x-gatehouse-client-address";
const CLIENT_AGENT = "x-gatehouse-client-agent";
/** Response header of a health check: how long the dependency took, in ms. */
export const LATENCY_MS = "x-gatehouse-latency-ms";
/** Response header of a success that does not change the client's cookies. */
export const KEEPS_COOKIES = "x-gatehouse-keeps-cookies";
/** Response header with the given request fields that the AI model takes no notice of. */
export const AI_IGNORED = "x-ai-ignored";

/** Maximum length of a stored User-Agent, in characters. */
const MAX_AGENT_LENGTH = 400;

/** The client of a request. */
export type Client = {
  /** IP address. */
  address: string;
  /** User-Agent, at most 400 characters; empty if none was sent. */
  agent: string;
};

/** The request id of the caller if it is well-formed, otherwise a new one. */
export function requestIdOf(sent: unknown): string {
  return typeof sent === "string" && /^(?!(?:start|jobs)$)[\w.-]{1,128}$/.test(sent)
    ? sent
    : randomUUID();
}

/** Whether a call has the secret of the gateways. */
export function isGatewaySecret(sent: unknown, secret: string | undefined): boolean {
  return secret !== undefined && typeof sent === "string" && equalSecrets(sent, secret);
}

/** Writes the client of a request into the metadata of its call. */
export function writeClient(
  header: Headers,
  { address, agent }: Client,
  secret: string | undefined,
): void {
  header.set(CLIENT_ADDRESS, address);
  if (agent) header.set(CLIENT_AGENT, encodeURIComponent(agent.slice(0, MAX_AGENT_LENGTH)));
  if (secret !== undefined) header.set(SECRET, secret);
}

/**
 * Reads the client of a call.
 * @param peer the address of the connection: the client, unless a gateway calls
 */
export function readClient(header: Headers, peer: string, secret: string | undefined): Client {
  const isGateway = isGatewaySecret(header.get(SECRET), secret);
  const agent = isGateway
    ? percentDecoded(header.get(CLIENT_AGENT) ?? "")
    : (header.get("user-agent") ?? "");
  const address = isGateway ? parseAddress(header.get(CLIENT_ADDRESS) ?? "") : undefined;
  return { address: address ?? peer, agent: agent.slice(0, MAX_AGENT_LENGTH) };
}

/** Compares two secrets in a time that depends only on their lengths. */
export function equalSecrets(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}

/** An address with a port, as some proxies write it (RFC 7239 section 6), with IPv6 in brackets. */
const WITH_PORT = /^(?:\[(.+)\]|([\d.]+))(?::\d+)?$/;

/**
 * The canonical spelling of an address: IPv4 if it is mapped into IPv6 (`::ffff:`), and without the
 * zone of a link-local one (`%eth0`). Most are IPv4: the colon is looked for first, since Node's
 * test for IPv6 is a long regular expression.
 */
export function plainAddress(address: string): string {
  return address.includes(":") && isIPv6(address)
    ? ipaddr.process(address.replace(/%.*/, "")).toString()
    : address;
}

/**
 * Parses an address that a proxy wrote, with or without a port.
 * @returns undefined if it is no address
 */
export function parseAddress(text: string): string | undefined {
  const [, ipv6, ipv4] = WITH_PORT.exec(text) ?? [];
  const address = ipv6 ?? ipv4 ?? text;
  return isIP(address) === 0 ? undefined : plainAddress(address);
}

/**
 * Internet providers often assign an IPv6 /48 to one customer. It has the share of this many /64.
 */
const NETWORKS_PER_SITE = 10;

/**
 * What an address counts towards, with the factor of its share: itself; for IPv6 its /64 and, ten
 * times that, its /48.
 */
export function networksOf(address: string): [network: string, factor: number][] {
  if (!address.includes(":") || !isIPv6(address)) return [[address, 1]];
  const parts = ipaddr.IPv6.parse(address).parts.map((part) => part.toString(16));
  return [
    [`${parts.slice(0, 4).join(":")}::/64`, 1],
    [`${parts.slice(0, 3).join(":")}::/48`, NETWORKS_PER_SITE],
  ];
}

/** The largest network that an address counts towards: for IPv6 its /48. */
export const siteOf = (address: string): string => networksOf(address).at(-1)?.[0] ?? address;

/** The proxies whose X-Forwarded-For is trusted. */
export type TrustedProxies = ReturnType<typeof createTrustedProxies>;

const HOUR_MS = 3_600_000;

/** @param proxies addresses and CIDRs */
export function createTrustedProxies(proxies: readonly string[], log?: Pick<Logger, "warn">) {
  const list = new BlockList();
  for (const proxy of proxies) {
    const [written = "", bits] = proxy.split("/");
    const address = plainAddress(written);
    if (bits === undefined) list.addAddress(address, familyOf(address));
    else list.addSubnet(address, Number(bits), familyOf(address));
  }
  const isTrusted = (written: string) => {
    const address = parseAddress(written);
    return address !== undefined && list.check(address, familyOf(address));
  };
  /**
   * The client behind a connection, in canonical spelling: reads X-Forwarded-For from its end for
   * as long as trusted proxies have written it, and stops at an entry that is no address.
   * @param peer the address of the connection
   * @param isInternal whether the connection is an internal caller's, which is trusted as a proxy is
   */
  const clientOf = (peer: string, forwardedFor: unknown, isInternal = false): string => {
    let client = plainAddress(peer);
    if (typeof forwardedFor !== "string") return client;
    let isProxy = isInternal || isTrusted(client);
    for (const entry of forwardedFor.split(",").reverse()) {
      const written = isProxy ? parseAddress(entry.trim()) : undefined;
      if (written === undefined) break;
      client = written;
      isProxy = isTrusted(client);
    }
    return client;
  };
  let quietUntil = 0;
  /**
   * Warns of an X-Forwarded-For from another address, once an hour: its clients would all count as
   * one.
   */
  const checkForwarded = ({ headers, socket: { remoteAddress = "" } }: FastifyRequest) => {
    if (
      headers["x-forwarded-for"] === undefined ||
      performance.now() < quietUntil ||
      isTrusted(remoteAddress)
    )
      return;
    quietUntil = performance.now() + HOUR_MS;
    log?.warn(
      { address: remoteAddress },
      "X-Forwarded-For is ignored: TRUST_PROXY does not list this address. If it is your proxy, all its clients share one limit.",
    );
  };
  return { isTrusted, clientOf, checkForwarded };
}

const familyOf = (address: string) => (address.includes(":") ? "ipv6" : "ipv4");
