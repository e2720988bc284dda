import http, { type IncomingMessage } from "node:http";
import https from "node:https";
import { isLoopbackHost } from "./gate/address.ts";
import { exemptions, type ProxyEnv } from "./outbound-proxy.ts";
import { version } from "./process/version.ts";

/** Maximum size of a response, in bytes. Key sets and discovery documents have a few KiB. */
const MAX_BYTES = 1024 * 1024;
/** Maximum size of response headers, in bytes. */
const MAX_HEAD_BYTES = 64 * 1024;

/** A request, as the Fetch standard writes it. */
export type OutboundRequest = {
  method?: string;
  headers?: Record<string, string>;
  body?: string | undefined;
};

/** The client for requests to other services. */
export type Outbound = ReturnType<typeof createOutbound>;

/** The other side did not answer in time, not at all, or with too much. */
export class OutboundError extends Error {
  override name = "OutboundError";
}

/**
 * Creates a client for requests whose targets other parties may choose: it follows no redirect, reads
 * at most 1 MiB, and ends with its signal. Connections are not kept, since such requests are rare.
 * @param isPlainAllowed whether http is allowed towards this machine, for trials
 */
export function createOutbound(proxyEnv: ProxyEnv, isPlainAllowed: boolean) {
  const agents = { "http:": new http.Agent({ proxyEnv }), "https:": new https.Agent({ proxyEnv }) };
  const direct = { "http:": new http.Agent(), "https:": new https.Agent() };
  const isDirect = exemptions(proxyEnv.NO_PROXY);
  const allows = ({ protocol, hostname }: URL): boolean =>
    protocol === "https:" || (isPlainAllowed && protocol === "http:" && isLoopbackHost(hostname));
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
      const protocol = url.protocol === "http:" ? "http:" : "https:";
      const isNear = isDirect(url.hostname) || isLoopbackHost(url.hostname);
      return exchange(url, request, (isNear ? direct : agents)[protocol], signal);
    },
  };
}

/** Sends a request with its agent and reads the response. */
function exchange(
  url: URL,
  { method = "GET", headers = {}, body }: OutboundRequest,
  agent: http.Agent,
  signal: AbortSignal,
): Promise<Response> {
  const sending = (url.protocol === "http:" ? http : https).request(url, {
    method,
    headers: { "user-agent": `gatehouse/${version}`, "accept-encoding": "identity", ...headers },
    agent,
    maxHeaderSize: MAX_HEAD_BYTES,
  });
  return new Promise<Response>((resolve, reject) => {
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
      readResponse(message).then((response) => {
        signal.removeEventListener("abort", onAbort);
        resolve(response);
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
