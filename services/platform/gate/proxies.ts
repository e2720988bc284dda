import { BlockList } from "node:net";
import type { FastifyRequest } from "fastify";
import type { Logger } from "pino";
import { familyOf, parseAddress, plainAddress } from "./address.ts";

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
   * The client behind a connection, in canonical form: reads X-Forwarded-For from right to left
   * while the entries were written by trusted proxies, and stops at an entry that is not an
   * address.
   * @param peer the address of the connection
   * @param isInternal whether the peer is an internal caller, trusted like a proxy
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
   * Warns about an X-Forwarded-For from an unlisted address, at most once an hour: all its clients
   * would share one limit.
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
      "X-Forwarded-For is ignored: TRUST_PROXY does not list this address. If it is your proxy, all its clients currently share one limit.",
    );
  };
  return { isTrusted, clientOf, checkForwarded };
}
