import type { LookupAddress } from "node:dns";
import { lookup, Resolver } from "node:dns/promises";
import http, { type IncomingMessage } from "node:http";
import https from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { isLoopbackHost } from "./gate/address.ts";
import { createAddressCheck, type Reach } from "./outbound-address.ts";
import { exemptions, type ProxyEnv } from "./outbound-proxy.ts";
import { version } from "./process/version.ts";

/** Maximum size of a response, in bytes. Key sets and discovery documents have a few KiB. */
const MAX_BYTES = 1024 * 1024;
/** Maximum size of response headers, in bytes. */
const MAX_HEAD_BYTES = 64 * 1024;
/** How long a name server may take to answer, in ms, and how often it is asked. */
const RESOLVER = { timeout: 2_000, tries: 2 };

/** A request, as the Fetch standard writes it. */
export type OutboundRequest = {
  method?: string;
  headers?: Record<string, string>;
  body?: string | undefined;
};

/** The client for requests to sign-in providers. */
export type Outbound = ReturnType<typeof createOutbound>;

/** The client for deliveries of webhooks. */
export type WebhookOutbound = ReturnType<typeof createWebhookOutbound>;

/**
 * The other side did not answer in time, not at all, or with too much, or it must not be asked.
 */
export class OutboundError extends Error {
  override name = "OutboundError";
}

/** Why an address is not connected to. */
class AddressRefused extends Error {
  override name = "AddressRefused";
  readonly code = "ADDRESS_REFUSED";
}

/** Finds the addresses of a name. Rejects if there are none. */
export type ResolveName = (hostname: string) => Promise<string[]>;

/**
 * Creates a client for requests whose targets other parties may choose: it follows no redirect, reads
 * at most 1 MiB, and ends with its signal. Connections are not kept, since such requests are rare.
 * @param isPlainAllowed whether http is allowed towards this machine, for trials
 */
export function createOutbound(proxyEnv: ProxyEnv, isPlainAllowed: boolean) {
  const allows = ({ protocol, hostname }: URL): boolean =>
    protocol === "https:" || (isPlainAllowed && protocol === "http:" && isLoopbackHost(hostname));
  const reachOf = createAddressCheck([]);
  const send = createSender(proxyEnv, (address) => reachOf(address) !== "metadata");
  return {
    /** Whether requests to a URL are sent: https, or http towards this machine where that is allowed. */
    allows,
    /**
     * Sends a request. Resolves with the response, whatever its status, once its body has been read.
     * @param signal ends the request
     * @throws OutboundError
     */
    async fetch(target: string, request: OutboundRequest, signal: AbortSignal): Promise<Response> {
      const url = new URL(target);
      if (!allows(url)) throw new OutboundError(`${url.protocol} is not allowed`);
      return send(url, request, signal, readResponse);
    },
  };
}

/** The answer to a delivery. Its body is not read. */
export type DeliveryAnswer = { status: number; retryAfter: string | undefined };

/**
 * Creates a client for requests to URLs that administrators enter: the connection's own look-up of the
 * name refuses addresses of this machine, its network and its cloud, so that the address that was checked
 * is the one that is connected to. Follows no redirect.
 * @param networks addresses and CIDRs that are allowed too, also with http; never those of metadata services
 * @param resolveName finds the addresses of a name
 */
export function createWebhookOutbound(
  proxyEnv: ProxyEnv,
  networks: readonly string[],
  resolveName: ResolveName = createResolver(),
) {
  const reachOf = createAddressCheck(networks);
  const mayConnect = (address: string, { protocol }: URL) =>
    isReachable(reachOf(address), protocol);
  const { HTTPS_PROXY, NO_PROXY } = proxyEnv; // what is plain stays within the listed networks
  const send = createSender({ HTTPS_PROXY, NO_PROXY }, mayConnect, resolveName);
  return {
    /**
     * Whether a URL may be posted to. The addresses of a name are checked when it is connected to.
     */
    allows(url: URL): boolean {
      const isPlain = url.protocol === "http:" && networks.length > 0;
      if (url.protocol !== "https:" && !isPlain) return false;
      const host = plainHost(url);
      return isIP(host) !== 0 ? mayConnect(host, url) : !isLoopbackHost(host);
    },
    /**
     * Posts a body. Resolves once the status of the response has arrived; the rest is not read.
     * @param signal ends the request
     * @throws OutboundError
     */
    post(
      target: string,
      headers: Record<string, string>,
      body: string,
      signal: AbortSignal,
    ): Promise<DeliveryAnswer> {
      const request = { method: "POST", headers, body };
      return send(new URL(target), request, signal, async (message) => {
        const { statusCode: status = 0, headers: received } = message;
        message.destroy();
        return { status, retryAfter: received["retry-after"] };
      });
    },
  };
}

/** Plain http stays within the networks that an operator has listed. */
const isReachable = (reach: Reach, protocol: string): boolean =>
  reach === "listed" || (reach === "public" && protocol === "https:");

/** Why a request has failed, in a few words without anything that the other side has sent. */
export function describeOutboundError(error: unknown): string {
  for (let each = error; each instanceof Error; each = each.cause) {
    const { code, name } = each as NodeJS.ErrnoException;
    if (name === "AddressRefused") return "its address is not allowed";
    if (name === "TimeoutError") return "no answer in time";
    if (typeof code === "string" && /^[A-Z][A-Z0-9_]{1,63}$/.test(code)) return code;
  }
  return "no answer";
}

/**
 * Finds addresses without the threads of the process, which hash passwords: a slow name server must not
 * delay sign-ins. It asks DNS alone, and completes no names.
 */
function createResolver(): ResolveName {
  const resolver = new Resolver(RESOLVER);
  return async (hostname) => {
    const found = await Promise.allSettled([
      resolver.resolve4(hostname),
      resolver.resolve6(hostname),
    ]);
    const addresses = found.flatMap((each) => (each.status === "fulfilled" ? each.value : []));
    const [failed] = found.filter((each) => each.status === "rejected");
    if (addresses.length === 0) throw failed?.reason;
    return addresses;
  };
}

const plainHost = ({ hostname }: URL) => hostname.replace(/^\[|\]$/g, "");

type Read<Result> = (message: IncomingMessage) => Promise<Result>;

/**
 * Creates a function that sends a request and reads its response. Without a proxy, only addresses are
 * connected to that may be; with one, the proxy resolves names.
 * @param resolveName by default, the resolver of the operating system
 */
function createSender(
  proxyEnv: ProxyEnv,
  mayConnect: (address: string, url: URL) => boolean,
  resolveName?: ResolveName,
) {
  // Without NO_PROXY: Node's agents would apply their own rules, and connect without our look-up.
  const { NO_PROXY, ...proxies } = proxyEnv;
  const proxied = {
    "http:": new http.Agent({ proxyEnv: proxies }),
    "https:": new https.Agent({ proxyEnv: proxies }),
  };
  const direct = { "http:": new http.Agent(), "https:": new https.Agent() };
  const proxyOf = { "http:": proxies.HTTP_PROXY, "https:": proxies.HTTPS_PROXY };
  const isDirect = exemptions(NO_PROXY);
  return async <Result>(
    url: URL,
    request: OutboundRequest,
    signal: AbortSignal,
    read: Read<Result>,
  ): Promise<Result> => {
    const host = plainHost(url);
    const checked = (addresses: string[]) => addresses.filter((each) => mayConnect(each, url));
    if (isIP(host) !== 0 && checked([host]).length === 0) throw refused(url);
    const protocol = url.protocol === "http:" ? "http:" : "https:";
    const isNear = isDirect(url.hostname) || isLoopbackHost(url.hostname);
    if (proxyOf[protocol] && !isNear)
      return exchange(url, request, { agent: proxied[protocol] }, signal, read);
    const lookup = lookUp(resolveName ?? systemResolver, checked);
    return exchange(url, request, { agent: direct[protocol], lookup }, signal, read);
  };
}

const refused = (url: URL) =>
  new OutboundError(`${url.host} is refused`, { cause: new AddressRefused("not allowed") });

/** The resolver of the operating system, which knows its own names. Uses a thread while it waits. */
const systemResolver: ResolveName = async (hostname) =>
  (await lookup(hostname, { all: true })).map(({ address }) => address);

/** The look-up of a connection, which finds only addresses that may be connected to. */
const lookUp =
  (resolveName: ResolveName, checked: (addresses: string[]) => string[]): LookupFunction =>
  (hostname, { all }, callback) => {
    const found = resolveName(hostname).then((addresses) => {
      const allowed = checked(addresses).map((address) => ({ address, family: isIP(address) }));
      if (allowed.length === 0) throw new AddressRefused(`no address of ${hostname} is allowed`);
      return allowed as [LookupAddress, ...LookupAddress[]];
    });
    found.then(
      (allowed) =>
        all ? callback(null, allowed) : callback(null, allowed[0].address, allowed[0].family),
      (error) => callback(error, []),
    );
  };

type Connection = Pick<https.RequestOptions, "agent" | "lookup">;

/** Sends a request over its connection and reads the response. */
function exchange<Result>(
  url: URL,
  { method = "GET", headers = {}, body }: OutboundRequest,
  connection: Connection,
  signal: AbortSignal,
  read: Read<Result>,
): Promise<Result> {
  const sending = (url.protocol === "http:" ? http : https).request(url, {
    method,
    headers: { "user-agent": `gatehouse/${version}`, "accept-encoding": "identity", ...headers },
    ...connection,
    maxHeaderSize: MAX_HEAD_BYTES,
  });
  return new Promise<Result>((resolve, reject) => {
    const fail = (cause: unknown) => {
      signal.removeEventListener("abort", onAbort);
      sending.destroy();
      reject(new OutboundError(`${url.host} does not answer`, { cause }));
    };
    const onAbort = () => fail(signal.reason);
    sending.on("error", fail); // first: a request that is destroyed emits one, too
    if (signal.aborted) return onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    sending.on("upgrade", () => fail(new Error("the protocol was switched")));
    sending.on("response", (message) => {
      message.on("error", fail);
      read(message).then((result) => {
        signal.removeEventListener("abort", onAbort);
        resolve(result);
      }, fail);
    });
    sending.end(body);
  });
}

/** Statuses whose responses have no body (Fetch standard, section 2.2.3). */
const WITHOUT_BODY = [204, 205, 304];

async function readResponse(message: IncomingMessage): Promise<Response> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of message as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_BYTES) throw new Error("the response is too large");
    chunks.push(chunk);
  }
  const { statusCode: status = 0, headersDistinct } = message;
  const headers = Object.entries(headersDistinct).flatMap(([name, values = []]) =>
    values.map((value): [string, string] => [name, value]),
  );
  return new Response(WITHOUT_BODY.includes(status) ? null : Buffer.concat(chunks), {
    status,
    headers,
  });
}
