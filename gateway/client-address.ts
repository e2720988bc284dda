import type { IncomingMessage } from "node:http";
import ipaddr from "ipaddr.js";
import { parseAddress } from "../services/platform/address.ts";

type Network = ReturnType<typeof ipaddr.parseCIDR>;

/**
 * Makes the function that tells a client's address. It is the socket's, unless that is a trusted proxy: then
 * X-Forwarded-For is read from the right, past the trusted proxies, since only its right end was written by them.
 * An entry that is no address ends the reading.
 * @param trusted addresses and CIDRs of proxies
 */
export function createClientAddress(trusted: readonly string[]): (request: IncomingMessage) => string {
  const networks = trusted.map(toNetwork);
  const isTrusted = (address: string) => {
    const parsed = ipaddr.process(address);
    return networks.some(([base, bits]) => parsed.kind() === base.kind() && parsed.match(base, bits));
  };
  return (request) => {
    let address = parseAddress(request.socket.remoteAddress ?? "") ?? "";
    if (networks.length === 0 || address === "") return address;
    const hops = String(request.headers["x-forwarded-for"] ?? "").split(",");
    while (hops.length > 0 && isTrusted(address)) {
      const next = parseAddress((hops.pop() ?? "").trim());
      if (next === undefined) break;
      address = next;
    }
    return address;
  };
}

function toNetwork(text: string): Network {
  if (text.includes("/")) return ipaddr.parseCIDR(text);
  const address = ipaddr.process(text);
  return [address, address.kind() === "ipv4" ? 32 : 128] as Network;
}
