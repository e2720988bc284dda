import http, { type IncomingMessage, type RequestOptions } from "node:http";
import https from "node:https";
import { pipeline, type Readable } from "node:stream";
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from "node:zlib";
import { exemptions, type ProxyEnv } from "../../platform/outbound-proxy.ts";
import { version } from "../../platform/process/version.ts";
import { ProviderError } from "./errors.ts";

/** See {@link createHttpClient}. */
export type HttpClient = ReturnType<typeof createHttpClient>;

/**
 * Time after which idle connections are closed, in milliseconds. It is shorter than that of most
 * servers, since a server that closes first may reset a request that was just written.
 */
const IDLE_CONNECTION_MS = 4_000;
/**
 * Time in which a request over a kept connection finds out that the server has closed it in the
 * meantime: a round trip, with room for slow ones, in milliseconds. What ends later, the server may
 * have read.
 */
const STALE_MS = 1_000;
/** Maximum size of response headers, in bytes. Some proxies exceed Node's default of 16 KiB. */
const HEAD_BYTES = 64 * 1024;
/**
 * Headers of every request. Some proxies reject requests without these. A reply may have either
 * type, whatever is requested.
 */
export const OWN_HEADERS = {
  "user-agent": `gatehouse/${version}`,
  accept: "application/json, text/event-stream",
  "content-type": "application/json",
  "accept-encoding": "identity",
};

/** Connection pools by protocol. */
const openPools = (options: https.AgentOptions) => ({
  "http:": new http.Agent(options),
  "https:": new https.Agent(options),
});

/**
 * Creates an HTTP client that posts JSON over pooled connections. `node:http` takes at most a third
 * of the CPU time of the built-in fetch or an SDK (`bench/rows/provider-clients.ts`), never follows
 * redirects, and closes the socket at once when a request is aborted.
 * @param connectMs time limit for connecting, including the TLS handshake
 * @param proxyEnv proxies for Node's agents, which use CONNECT for https (RFC 9110 section 9.3.6)
 */
export function createHttpClient(connectMs: number, proxyEnv: ProxyEnv = {}) {
  const kept = { keepAlive: true, timeout: IDLE_CONNECTION_MS };
  const direct = { reused: openPools(kept), fresh: openPools({}) };
  const proxied = { reused: openPools({ ...kept, proxyEnv }), fresh: openPools({ proxyEnv }) };
  const isDirect = exemptions(proxyEnv.NO_PROXY);
  return {
    /**
     * Posts a JSON document, given as an object or as its text. Resolves when the head of the
     * response has arrived, whatever its status. If a reused connection ends at once, before the
     * first byte of a response, the server had closed it: the request is sent again on a new
     * connection.
     * @throws ProviderError "unreadable reply" if the response is not HTTP, "unreachable" if the
     * connection fails; the reason of the signal
     */
    async post(
      target: RequestOptions,
      headers: Record<string, string>,
      document: object | string,
      signal: AbortSignal,
    ): Promise<IncomingMessage> {
      const pools = isDirect(target.hostname ?? "") ? direct : proxied;
      const protocol = target.protocol === "http:" ? "http:" : "https:";
      const options = { ...target, headers: { ...headers, ...OWN_HEADERS } };
      const sendOver = (agent: http.Agent) =>
        exchange({ ...options, agent }, document, connectMs, signal);
      try {
        return await sendOver(pools.reused[protocol]);
      } catch (thrown) {
        if (!(thrown instanceof StaleConnection)) throw thrown;
        return sendOver(pools.fresh[protocol]);
      }
    },
    close() {
      for (const { reused, fresh } of [direct, proxied])
        for (const agent of [...Object.values(reused), ...Object.values(fresh)]) agent.destroy();
    },
  };
}

/** A reused connection ended at once, before the first byte of a response. */
class StaleConnection extends Error {}

/** Sends a request with its agent and waits for the head of the response. */
function exchange(
  options: RequestOptions,
  document: object | string,
  connectMs: number,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const isPlain = options.protocol === "http:";
  const sending = (isPlain ? http : https).request({
    ...options,
    method: "POST",
    maxHeaderSize: HEAD_BYTES,
    timeout: 0, // the agent's timeout is for idle connections and would restart with every chunk
  });
  const answer = new Promise<IncomingMessage>((resolve, reject) => {
    const startedAt = performance.now();
    let [isConnected, isWritten, isAnswered] = [false, false, false];
    let response: IncomingMessage | undefined;
    // Also rejects: until a proxy has opened its tunnel there is no socket, and `destroy` emits
    // nothing.
    const end = (reason: unknown) => {
      stop();
      sending.destroy();
      reject(reason);
    };
    const unreachable = (detail: string | undefined) =>
      new ProviderError("unreachable", {
        ...{ retryable: true, detail },
        isUnsent: !(isConnected && isWritten),
      });
    const onLate = () => end(unreachable("ETIMEDOUT"));
    const connectTimer = setTimeout(onLate, connectMs);
    const stop = () => clearTimeout(connectTimer);
    sending.on("response", (message) => {
      response = message;
      resolve(message);
    });
    sending.on("error", (error: NodeJS.ErrnoException) => {
      if (isParseError(error)) {
        const unreadable = new ProviderError("unreadable reply", { detail: error.code });
        if (response && !response.complete) response.destroy(unreadable);
        return reject(unreadable);
      }
      const isStale = sending.reusedSocket && performance.now() - startedAt < STALE_MS;
      reject(isStale && !isAnswered ? new StaleConnection() : unreachable(error.code));
    });
    sending.on("finish", () => {
      isWritten = true;
    });
    sending.on("close", stop);
    sending.on("upgrade", () => end(new ProviderError("unreadable reply"))); // a protocol switch (101)
    sending.on("socket", (socket) => {
      socket.prependOnceListener("data", () => {
        isAnswered = true;
      });
      const onConnect = () => {
        isConnected = true;
        stop();
      };
      if (!socket.connecting) return onConnect();
      socket.once(isPlain ? "connect" : "secureConnect", onConnect).once("close", stop);
    });
    // Not the option `signal`, with which Node destroys the socket with an error. If the body has
    // arrived and is not being read, that error has no listener and ends the process.
    if (signal.aborted) end(signal.reason);
    else signal.addEventListener("abort", () => end(signal.reason), { once: true });
  });
  sending.end(typeof document === "string" ? document : JSON.stringify(document)); // outside of the closures, which would keep the text in memory
  return answer;
}

/** Whether an error is one of Node's HTTP parser: what has arrived is not a response. */
const isParseError = ({ code }: NodeJS.ErrnoException) => code?.startsWith("HPE_") ?? false;

/**
 * Some servers omit the end of a compressed body, such as its trailer. The finish marker shows
 * whether it is complete.
 */
const WITHOUT_TRAILER = { finishFlush: constants.Z_SYNC_FLUSH };
const gunzip = () => createGunzip(WITHOUT_TRAILER);
const inflate = (message: IncomingMessage) =>
  hasZlibHeader(message) ? createInflate(WITHOUT_TRAILER) : createInflateRaw(WITHOUT_TRAILER);
type Decompressor = (message: IncomingMessage) => NodeJS.ReadWriteStream;
const DECOMPRESSORS: ReadonlyMap<string, Decompressor> = new Map<string, Decompressor>([
  ["gzip", gunzip],
  ["x-gzip", gunzip],
  ["deflate", inflate],
  ["br", () => createBrotliDecompress({ finishFlush: constants.BROTLI_OPERATION_FLUSH })],
  ["zstd", () => createZstdDecompress({ finishFlush: constants.ZSTD_e_flush })],
]);

/** The method of zlib's header, in the lower half of its first byte (RFC 1950 section 2.2). */
const DEFLATE = 8;

/**
 * Whether a body of the encoding "deflate" begins with zlib's header, which some servers omit (RFC
 * 9110 section 8.4.1.2). It does if nothing has arrived.
 */
function hasZlibHeader(message: IncomingMessage): boolean {
  const start: Buffer | null = message.read(1);
  if (!start) return true;
  message.unshift(start);
  return ((start[0] ?? 0) & 0x0f) === DEFLATE;
}

/** Decompresses a body. Requests ask for an uncompressed one, but some proxies compress anyway. */
export function decompressed(message: IncomingMessage): Readable {
  const create = DECOMPRESSORS.get(message.headers["content-encoding"]?.toLowerCase() ?? "");
  if (!create) return message;
  return pipeline(message, create(message), () => {}) as unknown as Readable; // errors of both streams reach the reader
}

/**
 * Reads a body to its end.
 * @param onSize is told how many bytes have arrived so far
 * @throws ProviderError if it is larger than `maxBytes` or breaks off
 */
export async function readAll(
  body: Readable,
  maxBytes: number,
  onSize: (bytes: number) => void = () => {},
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes) throw new ProviderError("reply too large");
    onSize(size);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
