import http, { type IncomingMessage } from "node:http";
import https from "node:https";
import { Fault } from "./failure.ts";

/**
 * An answer whose status line has arrived. SDKs judge the empty success that it pretends to be and hand it back
 * untouched; the guarded reader judges `message`, the real one.
 */
export class Reply extends Response {
  readonly message: IncomingMessage;
  /** When its request left, by `performance.now()`. */
  readonly sentAt: number;
  constructor(message: IncomingMessage, sentAt: number) {
    super();
    this.message = message;
    this.sentAt = sentAt;
  }
}

/** How requests leave the process: a `fetch` to give to the SDKs, and the pool of connections behind it. */
export type Wire = {
  fetch(url: string | URL | Request, init?: RequestInit): Promise<Reply>;
  close(): void;
};

/** Where a provider listens, the key it knows us by, and the way there. */
export type Endpoint = { baseUrl: string; key: string; wire: Wire };

/** For the SDKs, whose own time limits would only interfere: the longest time that Node can wait. */
export const NEVER_MS = 2 ** 31 - 1;

/** Idle connections are given up before the usual server does, which would reset a request just written. */
const IDLE_CONNECTION_MS = 4_000;

/**
 * Opens a pool of connections.
 *
 * `node:http` instead of the built-in fetch: a third less CPU per stream, no redirect is ever followed, the socket
 * closes in the very moment of an abort, and reading is pull-based down to the kernel's buffer.
 *
 * @param connectMs how long a connection may take to stand
 */
export function openWire(connectMs: number): Wire {
  const options = { keepAlive: true, timeout: IDLE_CONNECTION_MS };
  const pools = { "http:": new http.Agent(options), "https:": new https.Agent(options) };

  function send(target: string | URL | Request, init: RequestInit = {}): Promise<Reply> {
    const url = new URL(target as string | URL);
    const { request, agent } =
      url.protocol === "http:"
        ? { request: http.request, agent: pools["http:"] }
        : { request: https.request, agent: pools["https:"] };
    const headers = { ...Object.fromEntries(new Headers(init.headers)), "accept-encoding": "identity" };
    const sentAt = performance.now();
    return new Promise((resolve, reject) => {
      const sending = request(url, { method: init.method ?? "POST", headers, agent });
      sending.on("response", (message) => resolve(new Reply(message, sentAt)));
      sending.on("error", reject);
      sending.on("socket", (socket) => {
        if (!socket.connecting) return;
        const alarm = setTimeout(() => sending.destroy(new Fault("timed out")), connectMs);
        const quiet = () => clearTimeout(alarm);
        socket.once(url.protocol === "http:" ? "connect" : "secureConnect", quiet).once("close", quiet);
      });
      // Not the option `signal`: Node then destroys the socket with an error that, once the whole body has arrived but
      // hasn't been read, nobody listens to, and that ends the process.
      if (init.signal?.aborted) sending.destroy();
      init.signal?.addEventListener("abort", () => sending.destroy(), { once: true });
      sending.end(init.body as string);
    });
  }

  return {
    fetch: send,
    close: () => {
      for (const pool of Object.values(pools)) pool.destroy();
    },
  };
}
