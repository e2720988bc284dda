import http, { type IncomingMessage, type RequestOptions } from "node:http";
import https from "node:https";
import { pipeline, type Readable } from "node:stream";
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
} from "node:zlib";
import { ProviderError } from "./errors.ts";

/** Base URL and API key of a provider, and the client to reach it. */
export type Endpoint = { baseUrl: string; key: string; http: ReturnType<typeof createHttpClient> };

/** The proxy for https, and the hosts that are reached without it. */
export type ProxyEnv = { HTTPS_PROXY?: string | undefined; NO_PROXY?: string | undefined };

/**
 * Idle connections are closed sooner than most servers do, which could reset a request just
 * written. Milliseconds.
 */
const IDLE_CONNECTION_MS = 4_000;

/**
 * Creates an HTTP client that posts JSON over a pool of connections. It uses `node:http` instead of
 * the built-in fetch or an SDK. That costs a third of the processor time or less
 * (`bench/sdk-cost.ts`), never follows a redirect, and closes the socket at the moment of an abort.
 * @param connectMs limit of connecting, TLS handshake included
 * @param proxyEnv the proxy for https, which Node's agents use (`CONNECT`, RFC 9110 section 9.3.6)
 */
export function createHttpClient(connectMs: number, proxyEnv: ProxyEnv = {}) {
  const options = { keepAlive: true, timeout: IDLE_CONNECTION_MS, proxyEnv };
  const pools = { "http:": new http.Agent(options), "https:": new https.Agent(options) };
  return {
    /**
     * Posts a JSON document. Resolves when the status line of the response has arrived, whatever
     * the status.
     */
    post(
      target: RequestOptions,
      headers: Record<string, string>,
      document: object,
      signal: AbortSignal,
    ) {
      const isPlain = target.protocol === "http:";
      const sending = (isPlain ? http : https).request({
        ...target,
        method: "POST",
        agent: pools[isPlain ? "http:" : "https:"],
        timeout: 0, // the agent's is for idle connections, and would restart with every piece
        headers: { ...headers, "content-type": "application/json", "accept-encoding": "identity" },
      });
      const answer = new Promise<IncomingMessage>((resolve, reject) => {
        // Rejects too: until a proxy has opened its tunnel there is no socket, and `destroy` emits
        // nothing.
        const end = (reason: unknown) => {
          stop();
          sending.destroy();
          reject(reason);
        };
        // Not "timed out", which counts as read: nothing has been sent.
        const onLate = () =>
          end(new ProviderError("unreachable", { retryable: true, detail: "ETIMEDOUT" }));
        const connectTimer = setTimeout(onLate, connectMs);
        const stop = () => clearTimeout(connectTimer);
        sending.on("response", resolve).on("error", reject).on("close", stop);
        sending.on("upgrade", () => end(new ProviderError("unreadable reply"))); // a switch of protocols (101)
        sending.on("socket", (socket) => {
          if (!socket.connecting) return stop();
          socket.once(isPlain ? "connect" : "secureConnect", stop).once("close", stop);
        });
        // Not the option `signal`: with that Node destroys the socket with an error. Once the body
        // has arrived but has not been read, that error has no listener and ends the process.
        if (signal.aborted) end(signal.reason);
        else signal.addEventListener("abort", () => end(signal.reason), { once: true });
      });
      sending.end(JSON.stringify(document)); // outside of the closures, which would keep the document until the response
      return answer;
    },
    close: () => Object.values(pools).forEach((pool) => void pool.destroy()),
  };
}

/** Some servers leave out the trailer of a compressed body. What it holds tells whether it is complete. */
const WITHOUT_TRAILER = { finishFlush: constants.Z_SYNC_FLUSH };
const gunzip = () => createGunzip(WITHOUT_TRAILER);
const DECOMPRESSORS: Record<string, () => NodeJS.ReadWriteStream> = {
  gzip: gunzip,
  "x-gzip": gunzip,
  deflate: () => createInflate(WITHOUT_TRAILER),
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
};

/** The request asks for an uncompressed body, but some proxies compress all the same. */
export function decompressed(message: IncomingMessage): Readable {
  const create = DECOMPRESSORS[message.headers["content-encoding"]?.toLowerCase() ?? ""];
  if (!create) return message;
  return pipeline(message, create(), () => {}) as unknown as Readable; // an error of either stream reaches its reader
}

/**
 * Reads a body to its end.
 * @throws ProviderError if it is larger than `maxBytes` or breaks off
 */
export async function readAll(body: Readable, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes) throw new ProviderError("reply too large");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
