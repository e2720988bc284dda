import type { Catalogue, CatalogueProvider } from "../catalogue.ts";
import type { Adapter } from "./adapter.ts";
import { asProvider } from "./adapter.ts";
import { anthropicAdapter } from "./anthropic.ts";
import { googleAdapter } from "./google.ts";
import { openaiAdapter } from "./openai.ts";
import { DEFAULT_LIMITS, type Limits, type Provider } from "./provider.ts";
import { type Endpoint, openWire } from "./wire.ts";

const ADAPTERS: Record<CatalogueProvider["dialect"], (endpoint: Endpoint) => Adapter> = {
  openai: (endpoint) => openaiAdapter(endpoint, true),
  anthropic: anthropicAdapter,
  google: googleAdapter,
  "openai-compatible": (endpoint) => openaiAdapter(endpoint, false),
};

/** The providers that can be called. */
export type Providers = {
  /** The provider behind a catalogue entry; undefined when no key activates it. */
  of(entry: CatalogueProvider): Provider | undefined;
  /** Closes idle connections; calls in progress end by their own signals. */
  close(): void;
};

/**
 * Prepares every provider of the catalogue that has a key. Nothing is loaded or connected before the first call.
 * @param variables the values of the variables that the catalogue names (keys and base URLs); empty is absent
 */
export function openProviders(
  catalogue: Catalogue,
  variables: Readonly<Record<string, string | undefined>>,
  limits: Partial<Limits> = {},
): Providers {
  const bounds = { ...DEFAULT_LIMITS, ...limits };
  const wire = openWire(bounds.connectMs);
  const open = new Map<string, Provider>();
  for (const { id, dialect, keyVariable, baseUrlVariable, baseUrl } of catalogue.providers) {
    const key = variables[keyVariable];
    if (!key) continue;
    const endpoint = { key, baseUrl: variables[baseUrlVariable] || baseUrl, wire };
    open.set(id, asProvider(id, ADAPTERS[dialect](endpoint), bounds));
  }
  return { of: ({ id }) => open.get(id), close: wire.close };
}
