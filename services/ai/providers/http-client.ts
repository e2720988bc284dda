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
import { version } from "../../platform/process/version.ts";
import { ProviderError } from "./errors.ts";
import { exemptions, type ProxyEnv } from "./outbound-proxy.ts";

/** Base URL and API key of a provider, and the client to reach it. */
export type Endpoint = { baseUrl: string; key: string; http: ReturnType<typeof createHttpClient> };

/**
 * Idle connections are closed sooner than most servers do, which could reset a request just
 * written. Milliseconds.
 */
const IDLE_CONNECTION_MS = 4_000;
/** Some proxies send long policies and cookies; Node would take 16 KiB. Bytes. */
const HEAD_BYTES = 64 * 1024;
/** Some proxies refuse requests without these. A reply may come in either form, whatever is asked. */
const OWN_HEADERS = {
  "user-agent": `gatehouse/${version}`,
  accept: "application/json, text/event-stream",
  "content-type": "application/json",
  "accept-encoding": "identity",
};

/** Pools of connections by the protocol of their requests. */
const openPools = (options: https.AgentOptions) => ({
  "http:": new http.Agent(options),
  "https:": new https.Agent(options),
});

/**
 * Creates an HTTP client that posts JSON over a pool of connections. It uses `node:http` instead of
 * the built-in fetch or an SDK. That costs a third of the CPU time or less
 * (`bench/rows/provider-clients.ts`), never follows a redirect, and closes the socket at the moment
 * of an abort.
 * @param connectMs limit of connecting, TLS handshake included
 * @param proxyEnv the proxies, which Node's agents use (RFC 9110 section 9.3.6 for https)
 */
export function createHttpClient(connectMs: number, proxyEnv: ProxyEnv = {}) {
  const kept = { keepAlive: true, timeout: IDLE_CONNECTION_MS };
  const direct = { reused: openPools(kept), fresh: openPools({}) };
  const proxied = { reused: openPools({ ...kept, proxyEnv }), fresh: openPools({ proxyEnv }) };
  const isDirect = exemptions(proxyEnv.NO_PROXY);
  return {
    /**
     * Posts a JSON document. Resolves when the head of the response has arrived, whatever the
     * status. A connection that was idle and ends without a byte of a response had been closed
     * before: the request is sent once more, on a new one.
     * @throws ProviderError "unreadable reply" if the response is no HTTP; otherwise the error of
     * the connection, or the reason of the signal
     */
    async post(
      target: RequestOptions,
      headers: Record<string, string>,
      document: object,
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

/** A connection that was used before ended without a byte of a response. */
class StaleConnection extends Error {}

/** Sends a request over a connection of its agent, and waits for the head of the response. */
function exchange(
  options: RequestOptions,
  document: object,
  connectMs: number,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const isPlain = options.protocol === "http:";
  const sending = (isPlain ? http : https).request({
    ...options,
    method: "POST",
    maxHeaderSize: HEAD_BYTES,
    timeout: 0, // the agent's is for idle connections, and would restart with every piece
  });
  const answer = new Promise<IncomingMessage>((resolve, reject) => {
    let isAnswered = false;
    let response: IncomingMessage | undefined;
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
      reject(sending.reusedSocket && !isAnswered ? new StaleConnection() : error);
    });
    sending.on("close", stop);
    sending.on("upgrade", () => end(new ProviderError("unreadable reply"))); // a switch of protocols (101)
    sending.on("socket", (socket) => {
      socket.prependOnceListener("data", () => {
        isAnswered = true;
      });
      if (!socket.connecting) return stop();
      socket.once(isPlain ? "connect" : "secureConnect", stop).once("close", stop);
    });
    // Not the option `signal`: with that Node destroys the socket with an error. Once the body
    // has arrived but has not been read, that error has no listener and ends the process.
    if (signal.aborted) end(signal.reason);
    else signal.addEventListener("abort", () => end(signal.reason), { once: true });
  });
  sending.end(JSON.stringify(document)); // outside of the closures, which would keep the text until the response
  return answer;
}

/** An error of Node's parser: what has arrived is no response. */
const isParseError = ({ code }: NodeJS.ErrnoException) => code?.startsWith("HPE_") ?? false;

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
