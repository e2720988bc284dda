import { BlockList, isIP } from "node:net";

/** Proxies by protocol, and the hosts that are reached directly. */
export type ProxyEnv = {
  HTTPS_PROXY?: string | undefined;
  HTTP_PROXY?: string | undefined;
  NO_PROXY?: string | undefined;
};

/**
 * Parses a list of hosts that are reached without a proxy, by the rules of curl: a name includes
 * its subdomains, with or without a leading `*.`, an address may be a network, and `*` alone
 * matches every host. Node's agents match names exactly.
 * @returns a function that tells whether a host is in the list
 */
export function exemptions(noProxy = ""): (hostname: string) => boolean {
  if (noProxy.trim() === "*") return () => true;
  const entries = noProxy.toLowerCase().split(/[\s,]+/);
  const names = entries.map((entry) => entry.replace(/^\*?\.|\.$/g, "")).filter(Boolean);
  const networks = new BlockList();
  for (const entry of entries) addNetwork(networks, entry);
  return (hostname) => {
    const host = hostname.toLowerCase().replace(/^\[|[\].]$/g, "");
    const version = isIP(host);
    if (version > 0) return networks.check(host, version === 6 ? "ipv6" : "ipv4");
    return names.some((name) => host === name || host.endsWith(`.${name}`));
  };
}

/** Adds an entry that is an address or a network. Ignores others. */
function addNetwork(networks: BlockList, entry: string): void {
  const [address = "", bits] = entry.replace(/[[\]]/g, "").split("/");
  const version = isIP(address);
  if (version === 0) return;
  const longest = version === 6 ? 128 : 32;
  const prefix = bits === undefined ? longest : Number(bits);
  if (Number.isInteger(prefix) && prefix >= 0 && prefix <= longest)
    networks.addSubnet(address, prefix, version === 6 ? "ipv6" : "ipv4");
}
