import { isIP, isIPv6 } from "node:net";
import ipaddr from "ipaddr.js";

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

export const familyOf = (address: string) => (address.includes(":") ? "ipv6" : "ipv4");
