import http, { type IncomingMessage, type RequestOptions } from "node:http";
import https from "node:https";
import { urlToHttpOptions } from "node:url";
import { UpstreamError } from "./errors.ts";

/** An answer whose status line has arrived, and when its request left, by `performance.now()`. */
export type UpstreamResponse = { message: IncomingMessage; sentAt: number };

/** The address of a method, taken apart once and not for every request. */
export type RequestTarget = Pick<RequestOptions, "protocol" | "hostname" | "port" | "path">;

/** How requests leave the process, and the pool of connections behind it. */
export type HttpClient = {
  /** Posts a JSON document, and resolves when the status line of the answer has arrived, whatever it says. */
  post(
    target: RequestTarget,
    headers: Record<string, string>,
    document: object,
    signal: AbortSignal,
  ): Promise<UpstreamResponse>;
  close(): void;
};

/** Where a provider listens, the key it knows us by, and the way there. */
export type Endpoint = { baseUrl: string; key: string; http: HttpClient };

/** Idle connections are given up before the usual server does, which would reset a request just written. */
const IDLE_CONNECTION_MS = 4_000;

/**
 * Opens a pool of connections.
 *
 * `node:http` instead of the built-in fetch or an SDK: much less CPU, no redirect is ever followed, the socket closes in
 * the very moment of an abort, and nothing is read before somebody asks for it.
 *
 * @param connectMs how long a connection may take to stand
 */
export function createHttpClient(connectMs: number): HttpClient {
  const options = { keepAlive: true, timeout: IDLE_CONNECTION_MS };
  const pools = { "http:": new http.Agent(options), "https:": new https.Agent(options) };
  return {
    post(target, headers, document, signal) {
      const isPlain = target.protocol === "http:";
      const sending = (isPlain ? http : https).request({
        ...target,
        method: "POST",
        agent: pools[isPlain ? "http:" : "https:"],
        timeout: 0, // that of the agent is for idle connections, and would be set anew with every piece
        headers: { ...headers, "content-type": "application/json", "accept-encoding": "identity" },
      });
      const sentAt = performance.now();
      const answer = new Promise<UpstreamResponse>((resolve, reject) => {
        let isAnswered = false;
        sending.on("response", (message) => {
          isAnswered = true;
          resolve({ message, sentAt });
        });
        sending.on("error", reject);
        // An answer that changes the protocol (101) brings neither of these two.
        sending.on("close", () => isAnswered || reject(new UpstreamError("unreadable reply")));
        sending.on("socket", (socket) => {
          if (!socket.connecting) return;
          const alarm = setTimeout(
            () => sending.destroy(new UpstreamError("timed out", { retryable: true })),
            connectMs,
          );
          const quiet = () => clearTimeout(alarm);
          socket.once(isPlain ? "connect" : "secureConnect", quiet).once("close", quiet);
        });
        // Not the option `signal`: Node then destroys the socket with an error that, once the whole body has arrived but
        // hasn't been read, nobody listens to, and that ends the process.
        if (signal.aborted) sending.destroy();
        signal.addEventListener("abort", () => sending.destroy(), { once: true });
      });
      sending.end(JSON.stringify(document)); // out here, where nothing keeps the document until the answer
      return answer;
    },
    close: () => {
      for (const pool of Object.values(pools)) pool.destroy();
    },
  };
}

/** The address of a method below a base URL, which may end in a slash. */
export function joinUrl(baseUrl: string, method: string): RequestTarget {
  const { protocol, hostname, port, path } = urlToHttpOptions(new URL(`${baseUrl.replace(/\/$/, "")}/${method}`));
  return { protocol, hostname, port, path };
}
