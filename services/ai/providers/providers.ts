import type { ProxyEnv } from "../../platform/outbound-proxy.ts";
import { BASE_URL, type Catalogue, isBaseUrl } from "../catalogue.ts";
import { anthropicAdapter } from "./anthropic.ts";
import { googleAdapter } from "./google.ts";
import { createHttpClient } from "./http-client.ts";
import { compatibleAdapter, openaiAdapter } from "./openai.ts";
import { DEFAULT_BOUNDS, type Provider, type ProviderBounds } from "./provider.ts";
import { createProvider } from "./reply.ts";

const ADAPTERS = {
  openai: openaiAdapter,
  anthropic: anthropicAdapter,
  google: googleAdapter,
  "openai-compatible": compatibleAdapter,
};

/**
 * Prepares every provider of the catalogue that has a key. Nothing is loaded or connected before
 * the first call.
 * @param variables values of the variables that the catalogue names (keys and base URLs). An empty
 * value counts as absent.
 * @returns the providers by public id, and a function that closes idle connections. Calls are ended
 * by their own signals.
 * @throws Error whose message lists every variable with an invalid value, without the value
 */
export function openProviders(
  catalogue: Catalogue,
  variables: Readonly<Record<string, string | undefined>>,
  { proxyEnv, ...limits }: Partial<ProviderBounds> & { proxyEnv?: ProxyEnv } = {},
) {
  const bounds = { ...DEFAULT_BOUNDS, ...limits };
  const http = createHttpClient(bounds.connectMs, proxyEnv);
  const byId = new Map<string, Provider>();
  const problems: string[] = [];
  for (const { id, dialect, keyVariable, baseUrlVariable, ...defaults } of catalogue.providers) {
    const key = variables[keyVariable] ?? "";
    const baseUrl = variables[baseUrlVariable] || defaults.baseUrl;
    if (!/^[\x21-\x7e]*$/.test(key))
      problems.push(`${keyVariable} must be printable ASCII, without spaces`);
    if (!isBaseUrl(baseUrl)) problems.push(`${baseUrlVariable} ${BASE_URL}`);
    else if (key) byId.set(id, createProvider(ADAPTERS[dialect], { baseUrl, key, http }, bounds));
  }
  if (problems.length > 0)
    throw new Error(`The AI providers cannot be used:\n  ${problems.join("\n  ")}`);
  return { byId, close: http.close };
}
