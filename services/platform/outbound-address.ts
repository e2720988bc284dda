import { BlockList } from "node:net";
import ipaddr from "ipaddr.js";
import { familyOf, plainAddress } from "./gate/address.ts";

/**
 * Kind of an address: `public`, `listed` by the operator, `private` to this machine or its network,
 * or `metadata`, a cloud service that returns credentials.
 */
export type Reach = "public" | "listed" | "private" | "metadata";

/**
 * Addresses at which clouds return credentials of the machine: link-local addresses, IPv6 addresses
 * of AWS and Google Cloud, and addresses of Alibaba Cloud and Azure.
 */
const METADATA = networkList([
  "169.254.0.0/16",
  "fd00:ec2::254",
  "fd20:ce::254",
  "100.100.100.200",
  "168.63.129.16",
]);

/** Global unicast addresses of IPv6 (RFC 4291 section 2.4, as IANA assigns them). */
const GLOBAL = networkList(["2000::/3"]);

/**
 * Translated IPv4 addresses (RFC 6052 section 2.1), which the network routes to the IPv4 address.
 */
const TRANSLATED = networkList(["64:ff9b::/96"]);

/**
 * Creates a check for addresses that others have chosen.
 * @param networks addresses and CIDRs that are `listed`
 */
export function createAddressCheck(networks: readonly string[]): (address: string) => Reach {
  const listed = networkList(networks);
  return (written) => {
    const address = reachedAddress(written);
    if (METADATA(address)) return "metadata";
    if (listed(address) || listed(plainAddress(written))) return "listed";
    return isPublic(address) ? "public" : "private";
  };
}

function isPublic(address: string): boolean {
  const isUnicast = ipaddr.parse(address).range() === "unicast";
  return isUnicast && (familyOf(address) === "ipv4" || GLOBAL(address));
}

/** The address that is reached: the IPv4 address if it is written as a mapped or translated one. */
function reachedAddress(written: string): string {
  const address = plainAddress(written);
  if (!TRANSLATED(address)) return address;
  return ipaddr.fromByteArray(ipaddr.parse(address).toByteArray().slice(-4)).toString();
}

/** Creates a function that tells whether a plain address is in a list of addresses and CIDRs. */
function networkList(networks: readonly string[]): (address: string) => boolean {
  const list = new BlockList();
  for (const network of networks) {
    const [written = "", bits] = network.split("/");
    const address = plainAddress(written);
    if (bits === undefined) list.addAddress(address, familyOf(address));
    else list.addSubnet(address, Number(bits), familyOf(address));
  }
  return (address) => list.check(address, familyOf(address));
}
