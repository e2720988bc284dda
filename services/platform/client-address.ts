import { BlockList, isIP } from "node:net";
import { parseAddress, plainAddress } from "./address.ts";

/** A request as Fastify knows it: `ips` is the socket's address and what X-Forwarded-For adds, nearest first. */
type AddressedRequest = { ip: string; ips?: string[] | undefined };

/** Which addresses are proxies whose X-Forwarded-For is believed. */
export type TrustedProxies = {
  isTrusted(address: string): boolean;
  /** For Fastify's option `trustProxy`. */
  option: false | ((address: string) => boolean);
};

/** @param proxies addresses and CIDRs */
export function createTrustedProxies(proxies: readonly string[]): TrustedProxies {
  const list = new BlockList();
  for (const proxy of proxies) {
    const [written = "", bits] = proxy.split("/");
    const address = plainAddress(written);
    const family = familyOf(address);
    list.addSubnet(address, bits === undefined ? (family === "ipv4" ? 32 : 128) : Number(bits), family);
  }
  const isTrusted = (written: string) => {
    const address = parseAddress(written);
    return address !== undefined && list.check(address, familyOf(address));
  };
  return { isTrusted, option: proxies.length > 0 && isTrusted };
}

/** The client's address in its usual spelling. An entry of X-Forwarded-For that is no address ends the reading. */
export function clientAddressOf({ ip, ips = [ip] }: AddressedRequest): string {
  return ips.map((entry) => parseAddress(entry ?? "")).findLast((address) => address !== undefined) ?? "";
}

const familyOf = (address: string) => (isIP(address) === 6 ? "ipv6" : "ipv4");
