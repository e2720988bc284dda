import { isIPv6 } from "node:net";
import ipaddr from "ipaddr.js";

/** One spelling per address; an IPv4 address behind ::ffff: is an IPv4 address. */
export function plainAddress(address: string): string {
  return isIPv6(address) ? ipaddr.process(address).toString() : address;
}

/** What a plain address is counted as: itself, or for IPv6 its /64, which is what one customer is given. */
export function networkOf(address: string): string {
  if (!isIPv6(address)) return address;
  return `${ipaddr.IPv6.parse(address)
    .parts.slice(0, 4)
    .map((part) => part.toString(16))
    .join(":")}::/64`;
}
