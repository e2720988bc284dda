import { isIP, isIPv6 } from "node:net";
import ipaddr from "ipaddr.js";

/** With the port that some proxies write (RFC 7239 section 6), and IPv6 in brackets. */
const WITH_PORT = /^(?:\[(.+)\]|([\d.]+))(?::\d+)?$/;

/** The canonical spelling of an address. An IPv4 address mapped into IPv6 (`::ffff:`) becomes an IPv4 address. */
export function plainAddress(address: string): string {
  return isIPv6(address) ? ipaddr.process(address).toString() : address;
}

/** Parses an address that a proxy wrote, with or without a port. @returns undefined if it is no address */
export function parseAddress(text: string): string | undefined {
  const [, ipv6, ipv4] = WITH_PORT.exec(text) ?? [];
  const address = ipv6 ?? ipv4 ?? text;
  return isIP(address) === 0 ? undefined : plainAddress(address);
}

/** The network that a plain address is counted as: an IPv6 address as its /64, which is what one customer is given. */
export function networkOf(address: string): string {
  if (!isIPv6(address)) return address;
  return `${ipaddr.IPv6.parse(address)
    .parts.slice(0, 4)
    .map((part) => part.toString(16))
    .join(":")}::/64`;
}
