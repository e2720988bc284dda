import type { IncomingMessage } from "node:http";
import { urlToHttpOptions } from "node:url";
import { type HttpClient, OWN_HEADERS } from "../http-client.ts";
import type { CloudRequest, CloudResponse } from "./cloud.ts";
import { whileWanted } from "./identity.ts";

/**
 * Options of every client of a vendor's SDK. Retries and time limits are ours, and an SDK that logs
 * would log credentials. Its own time limit is the longest that a timer can have.
 */
export const SDK_OPTIONS = { maxRetries: 0, timeout: 2 ** 31 - 1, logLevel: "off" } as const;

/** Headers in which SDKs tell vendors about this machine. */
const TOLD = ["lang", "package-version", "os", "arch", "runtime", "runtime-version"];
const SDK_HEADERS = Object.fromEntries(
  [...TOLD, "retry-count", "timeout"].map((name) => [`x-stainless-${name}`, null]),
);

/**
 * The headers of a request: those that are sent, since signatures cover them, and none of the SDK
 * itself.
 */
export const sdkHeaders = (headers: Readonly<Record<string, string>>) => ({
  ...SDK_HEADERS,
  ...headers,
  ...OWN_HEADERS,
});

/** Paths of OpenAI's SDK. For Azure it adds the deployment to those that need it. */
export function openaiPath(api: CloudRequest["api"]): string {
  if (api === "embeddings") return "/embeddings";
  return api === "responses" ? "/responses" : "/chat/completions";
}

/** Paths of Anthropic's SDKs. */
export const anthropicPath = (api: CloudRequest["api"]): string =>
  api === "count_tokens" ? "/v1/messages/count_tokens" : "/v1/messages";

/**
 * Lets an SDK send a request over our HTTP client.
 * @param send calls the SDK with the `fetch` that it is to use
 * @param body what is sent instead of what the SDK has written
 * @returns the response, which the SDK has not read
 * @throws ProviderError if the SDK has no credentials; otherwise as `HttpClient.post`
 */
export async function sendBySdk(
  http: HttpClient,
  signal: AbortSignal,
  send: (fetch: typeof globalThis.fetch) => Promise<unknown>,
  body?: string,
): Promise<CloudResponse> {
  const sent: { message?: IncomingMessage; path: string; failure?: { reason: unknown } } = {
    path: "",
  };
  const fetchOverHttp: typeof globalThis.fetch = async (url, init = {}) => {
    signal.throwIfAborted();
    const { protocol, hostname, port, path } = urlToHttpOptions(new URL(String(url)));
    sent.path = path?.replace(/\?.*/, "") ?? "";
    const headers = Object.fromEntries(new Headers(init.headers));
    try {
      const target = { protocol, hostname, port, path };
      sent.message = await http.post(target, headers, body ?? String(init.body), signal);
    } catch (reason) {
      sent.failure = { reason };
      throw reason;
    }
    return new Response(null); // always a success: errors are read as those of all providers
  };
  try {
    await whileWanted(send(fetchOverHttp), signal);
  } catch (thrown) {
    throw sent.failure ? sent.failure.reason : thrown;
  }
  if (!sent.message) throw new Error("The SDK has not sent its request.");
  return { message: sent.message, path: sent.path };
}
