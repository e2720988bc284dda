import { urlToHttpOptions } from "node:url";
import type { Logger } from "pino";
import type { ProxyEnv } from "../../platform/outbound-proxy.ts";
import { type Clock, systemClock } from "../../platform/process/clock.ts";
import type { Catalogue, CatalogueProvider } from "../catalogue.ts";
import { mapTargets, type Targets } from "../targets.ts";
import { readAccess } from "./access.ts";
import { anthropicAdapter } from "./anthropic.ts";
import { openCloud } from "./clouds/open-cloud.ts";
import { missingPackages } from "./clouds/packages.ts";
import { googleAdapter } from "./google.ts";
import { type AttemptOutcome, UpstreamHealth } from "./health.ts";
import { createHttpClient } from "./http-client.ts";
import { cloudOpenaiAdapter, compatibleAdapter, openaiAdapter } from "./openai.ts";
import {
  type AnyPrompt,
  type CallObserver,
  DEFAULT_BOUNDS,
  type ProviderBounds,
} from "./provider.ts";
import { ProviderKeys } from "./provider-keys.ts";
import { answerTo, createProvider, replyTo, type Upstream } from "./reply.ts";

const ADAPTERS = {
  openai: openaiAdapter,
  anthropic: anthropicAdapter,
  google: googleAdapter,
  "openai-compatible": compatibleAdapter,
};

const adapterOf = ({ dialect, endpoint }: CatalogueProvider) =>
  endpoint && dialect === "openai" ? cloudOpenaiAdapter : ADAPTERS[dialect];

type ProviderOptions = Partial<ProviderBounds> & {
  proxyEnv?: ProxyEnv;
  clock?: Clock;
  /** Called for keys that are set aside and for breakers. Optional. */
  log?: Pick<Logger, "warn" | "info">;
  /** Called at the end of each attempt with its outcome. */
  onAttempt?: (provider: string, outcome: AttemptOutcome) => void;
};

/** A prompt for a model of the provider with this public id. */
export type RoutedPrompt = { provider: string; prompt: AnyPrompt };
/** The same prompt for each of several models, in the order in which they are tried. */
type RoutedPrompts = Targets<RoutedPrompt>;

/**
 * Prepares every provider of the catalogue that has a key, or a place in a cloud. Nothing is loaded
 * or connected before the first call.
 * @param variables values of the variables that the catalogue names (keys and base URLs). An empty
 * value counts as absent.
 * @throws Error whose message lists every variable with an invalid value, without the value, and
 * missing packages
 */
export function openProviders(
  catalogue: Catalogue,
  variables: Readonly<Record<string, string | undefined>>,
  { proxyEnv, clock = systemClock, log, onAttempt, ...limits }: ProviderOptions = {},
) {
  const bounds = { ...DEFAULT_BOUNDS, ...limits };
  const http = createHttpClient(bounds.connectMs, proxyEnv);
  const problems: string[] = [];
  const packages: string[] = [];
  const open = (entry: CatalogueProvider): Upstream | undefined => {
    const { id, dialect, endpoint } = entry;
    const { access, problems: found } = readAccess(entry, variables);
    problems.push(...found);
    if (!access || problems.length > 0) return undefined;
    const { keys, baseUrl, place } = access;
    packages.push(...access.packages);
    return {
      adapter: adapterOf(entry),
      base: baseUrl === "" ? {} : urlToHttpOptions(new URL(baseUrl)),
      http,
      cloud: endpoint && place && openCloud(endpoint, dialect, place, http),
      keys: new ProviderKeys(keys, clock, ({ number, until, reason }) =>
        log?.warn(
          { provider: id, key: number, until },
          `A key of the AI provider ${id} is set aside: ${reason}.`,
        ),
      ),
      health: new UpstreamHealth(clock, (isOpen) =>
        isOpen
          ? log?.warn({ provider: id }, `The AI provider ${id} is failing: its breaker is open.`)
          : log?.info({ provider: id }, `The AI provider ${id} works: its breaker is closed.`),
      ),
      onAttempt: (outcome) => onAttempt?.(id, outcome),
    };
  };
  const opened = catalogue.providers.map((entry) => [entry.id, open(entry)] as const);
  const missing = missingPackages(packages);
  if (missing) problems.push(missing);
  if (problems.length > 0)
    throw new Error(`The AI providers cannot be used:\n  ${problems.join("\n  ")}`);
  const upstreams = new Map(opened.flatMap(([id, each]) => (each ? [[id, each]] : [])));
  const upstreamOf = (id: string): Upstream => {
    const upstream = upstreams.get(id);
    if (!upstream) throw new Error(`The AI provider ${id} is not open.`);
    return upstream;
  };
  const upstreamPrompts = (prompts: RoutedPrompts) =>
    mapTargets(prompts, ({ provider, prompt }) => ({ upstream: upstreamOf(provider), prompt }));
  return {
    /** The providers by public id. */
    byId: new Map(
      [...upstreams].map(([id, upstream]) => [id, createProvider(upstream, bounds)] as const),
    ),
    /**
     * Sends a prompt as a {@link Provider} does, and continues with the next model while one fails
     * before the first byte.
     */
    reply: (prompts: RoutedPrompts, signal: AbortSignal, observer?: CallObserver) =>
      replyTo(upstreamPrompts(prompts), bounds, signal, observer),
    /**
     * Sends a body whose response is not a reply, such as a token count.
     * @param onTarget receives the index of a model that the call continues with
     * @returns the answer, a JSON object
     * @throws ProviderError; the reason of the signal once that has fired
     */
    answer: (prompts: RoutedPrompts, signal: AbortSignal, onTarget: (index: number) => void) =>
      answerTo(upstreamPrompts(prompts), bounds, signal, onTarget),
    /** Whether calls of aliases should avoid an open provider. */
    isAvoided: (id: string) => upstreamOf(id).health.isAvoided,
    /** The state of the open providers in this process, by public id. */
    states: () =>
      new Map(
        [...upstreams].map(([id, { keys, health }]) => [
          id,
          { ...health.report, keys: keys.count, setAside: keys.setAside },
        ]),
      ),
    /** Closes idle connections. Calls are ended by their own signals. */
    close: http.close,
  };
}
