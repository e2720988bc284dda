import type { IncomingMessage } from "node:http";
import type { AnyPrompt, RelayApi } from "../provider.ts";
import type { Destination } from "../send.ts";

/** The API to call: the chat API of the dialect, its embeddings, or a relayed API. */
type CloudApi = "reply" | "embeddings" | RelayApi;

/** A request for a model in a cloud, without its URL and credentials. */
export type CloudRequest = {
  api: CloudApi;
  /** Name of the model at the provider. */
  model: string;
  isStream: boolean;
  /** Headers of the dialect. */
  headers: Readonly<Record<string, string>>;
  /** A JSON object. */
  body: string;
};

/** A response whose head has arrived, and the path of the request. */
export type CloudResponse = { message: IncomingMessage; path: string };

/** A cloud: it knows the URLs of its models and has their credentials. */
export type Cloud = {
  /**
   * Sends a request once. Resolves when the head of the response has arrived, whatever its status.
   * @param key an API key; empty for the credentials of this process
   * @throws ProviderError if there are no credentials; otherwise as `HttpClient.post`
   */
  post(request: CloudRequest, key: string, signal: AbortSignal): Promise<CloudResponse>;
};

/** A request as its dialect writes it. */
type DialectMessage = {
  headersFor(key: string): Record<string, string>;
  body(): object | string;
};

/** How a prompt is sent to its model in a cloud. */
export function cloudRoute(
  cloud: Cloud,
  prompt: AnyPrompt,
  { headersFor, body }: DialectMessage,
): Pick<Destination, "path" | "post"> {
  const { model, isStream } = prompt;
  const route: Pick<Destination, "path" | "post"> = {
    path: "", // known once the request is sent
    async post(key, signal) {
      const document = body();
      const { message, path } = await cloud.post(
        {
          ...{ api: apiOf(prompt), model: model.upstream, isStream },
          headers: withoutCredentials(headersFor("")),
          body: typeof document === "string" ? document : JSON.stringify(document),
        },
        key.text,
        signal,
      );
      route.path = path;
      return message;
    },
  };
  return route;
}

function apiOf(prompt: AnyPrompt): CloudApi {
  if ("inputs" in prompt) return "embeddings";
  return "relay" in prompt ? prompt.relay.api : "reply";
}

/** The headers in which dialects send a key. */
const CREDENTIALS: ReadonlySet<string> = new Set(["authorization", "x-goog-api-key"]);

const withoutCredentials = (headers: Record<string, string>) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !CREDENTIALS.has(name)));
