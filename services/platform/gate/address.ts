import { isIP, isIPv4, isIPv6 } from "node:net";
import ipaddr from "ipaddr.js";

/**
 * An address with an optional port, as written by some proxies (RFC 7239 section 6), IPv6 in
 * brackets.
 */
const WITH_PORT = /^(?:\[(.+)\]|([\d.]+))(?::\d+)?$/;

/**
 * Canonical form of an address: IPv4-mapped IPv6 (`::ffff:`) becomes IPv4, and the zone of a
 * link-local address (`%eth0`) is removed. Most addresses are IPv4: looking for a colon first saves
 * Node's IPv6 check, a long regular expression.
 */
export function plainAddress(address: string): string {
  return address.includes(":") && isIPv6(address)
    ? ipaddr.process(address.replace(/%.*/, "")).toString()
    : address;
}

/**
 * Parses an address written by a proxy, with or without a port.
 * @returns undefined if it is not an address
 */
export function parseAddress(text: string): string | undefined {
  const [, ipv6, ipv4] = WITH_PORT.exec(text) ?? [];
  const address = ipv6 ?? ipv4 ?? text;
  return isIP(address) === 0 ? undefined : plainAddress(address);
}

/**
 * Number of /64s whose share an IPv6 /48 gets. Internet providers often assign a /48 to one
 * customer.
 */
const NETWORKS_PER_SITE = 10;

/**
 * Networks that an address counts towards, with the factor of their share: an IPv4 address itself;
 * for IPv6, its /64, and its /48 with a tenfold share.
 */
export function networksOf(address: string): [network: string, factor: number][] {
  if (!address.includes(":") || !isIPv6(address)) return [[address, 1]];
  const parts = ipaddr.IPv6.parse(address).parts.map((part) => part.toString(16));
  return [
    [`${parts.slice(0, 4).join(":")}::/64`, 1],
    [`${parts.slice(0, 3).join(":")}::/48`, NETWORKS_PER_SITE],
  ];
}

/** The largest network that an address counts towards: the /48 of an IPv6 address. */
export const siteOf = (address: string): string => networksOf(address).at(-1)?.[0] ?? address;

/** The neighbourhood of an address: the /24 of an IPv4 address, the /48 of an IPv6 address. */
export const networkOf = (address: string): string =>
  isIPv4(address) ? `${address.slice(0, address.lastIndexOf("."))}.0/24` : siteOf(address);

export const familyOf = (address: string) => (address.includes(":") ? "ipv6" : "ipv4");

/** Whether a host of a URL is this machine, by its name or address. */
export function isLoopbackHost(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$|\.$/g, "").toLowerCase();
  if (host === "localhost" || host.endsWith(".localhost")) return true;
  const address = plainAddress(host);
  return isIP(address) !== 0 && ipaddr.parse(address).range() === "loopback";
}
