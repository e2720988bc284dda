import type { LookupAddress } from "node:dns";
import { lookup, Resolver } from "node:dns/promises";
import http, { type IncomingMessage } from "node:http";
import https from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { isLoopbackHost } from "./gate/address.ts";
import { createAddressCheck, type Reach } from "./outbound-address.ts";
import { exemptions, type ProxyEnv } from "./outbound-proxy.ts";
import { version } from "./process/version.ts";

/**
 * Maximum size of a response, in bytes. Key sets and discovery documents have a few KiB. A sign-in
 * reads three or four responses, so at most 1 MiB.
 */
const MAX_BYTES = 256 * 1024;
/** Maximum size of response headers, in bytes. */
const MAX_HEAD_BYTES = 64 * 1024;
/** Timeout of a query to a name server, in ms, and number of attempts. */
const RESOLVER = { timeout: 2_000, tries: 2 };

/** A request, with the properties of the Fetch standard. */
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
 * The other side sent no response, a late one or one that is too large, or requests to it are not
 * allowed.
 */
export class OutboundError extends Error {
  override name = "OutboundError";
}

/** The error for an address to which connections are not allowed. */
class AddressRefused extends Error {
  override name = "AddressRefused";
  readonly code = "ADDRESS_REFUSED";
}

/** Finds the addresses of a name. Rejects if there are none. */
export type ResolveName = (hostname: string) => Promise<string[]>;

/**
 * Creates a client for requests whose targets other parties may choose. It follows no redirects,
 * reads at most 256 KiB, and stops when its signal aborts. Connections are not reused, since such
 * requests are rare.
 * @param isPlainAllowed whether http to this machine is allowed, for trials
 */
export function createOutbound(proxyEnv: ProxyEnv, isPlainAllowed: boolean) {
  const allows = ({ protocol, hostname }: URL): boolean =>
    protocol === "https:" || (isPlainAllowed && protocol === "http:" && isLoopbackHost(hostname));
  const reachOf = createAddressCheck([]);
  const send = createSender(proxyEnv, (address) => reachOf(address) !== "metadata");
  return {
    /**
     * Whether requests to a URL are allowed: https, or http to this machine if `isPlainAllowed`.
     */
    allows,
    /**
     * Sends a request. Resolves once the body of the response has been read, whatever its status.
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

/** The response to a delivery, without its body. */
export type DeliveryAnswer = { status: number; retryAfter: string | undefined };

/**
 * Creates a client for requests to URLs that administrators enter. The DNS lookup of each
 * connection rejects addresses of this machine, its network and its cloud, so that the checked
 * address is the one that is connected to. Follows no redirects.
 * @param networks additional allowed addresses and CIDRs, over http too; metadata services are
 * never allowed
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
  const { HTTPS_PROXY, NO_PROXY } = proxyEnv; // plain http stays within the listed networks
  const send = createSender({ HTTPS_PROXY, NO_PROXY }, mayConnect, resolveName);
  return {
    /** Whether a URL may be posted to. The addresses of a name are only checked when connecting. */
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

/** Plain http is allowed only to networks that the operator has listed. */
const isReachable = (reach: Reach, protocol: string): boolean =>
  reach === "listed" || (reach === "public" && protocol === "https:");

/** Why a request has failed, in a few words that contain nothing that the other side has sent. */
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
 * Creates a resolver that does not use the thread pool, which hashes passwords: a slow name server
 * must not delay sign-ins. It only queries DNS, and does not complete names.
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
 * Creates a function that sends a request and reads its response. Without a proxy, it only connects
 * to allowed addresses; with one, the proxy resolves names.
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

/**
 * The resolver of the operating system, which also knows local names. Uses a thread while it waits.
 */
const systemResolver: ResolveName = async (hostname) =>
  (await lookup(hostname, { all: true })).map(({ address }) => address);

/** The lookup function of a connection, which returns only allowed addresses. */
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
    sending.on("error", fail); // first, because a destroyed request also emits an error
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
