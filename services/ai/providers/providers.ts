import { urlToHttpOptions } from "node:url";
import type { Logger } from "pino";
import type { ProxyEnv } from "../../platform/outbound-proxy.ts";
import { type Clock, systemClock } from "../../platform/process/clock.ts";
import { BASE_URL, type Catalogue, type CatalogueProvider, isBaseUrl } from "../catalogue.ts";
import { mapTargets, type Targets } from "../targets.ts";
import { anthropicAdapter } from "./anthropic.ts";
import { googleAdapter } from "./google.ts";
import { type AttemptOutcome, UpstreamHealth } from "./health.ts";
import { createHttpClient } from "./http-client.ts";
import { compatibleAdapter, openaiAdapter } from "./openai.ts";
import {
  type AnyPrompt,
  DEFAULT_BOUNDS,
  type ProviderBounds,
  type ReserveMemory,
} from "./provider.ts";
import { ProviderKeys } from "./provider-keys.ts";
import { answerTo, createProvider, replyTo, type Upstream } from "./reply.ts";

const ADAPTERS = {
  openai: openaiAdapter,
  anthropic: anthropicAdapter,
  google: googleAdapter,
  "openai-compatible": compatibleAdapter,
};

type ProviderOptions = Partial<ProviderBounds> & {
  proxyEnv?: ProxyEnv;
  clock?: Clock;
  /** Is told of keys that are set aside and of breakers. By default nobody is. */
  log?: Pick<Logger, "warn" | "info">;
  /** Is told how each attempt has ended. */
  onAttempt?: (provider: string, outcome: AttemptOutcome) => void;
};

/** A prompt for a model of the provider with this public id. */
export type RoutedPrompt = { provider: string; prompt: AnyPrompt };
/** The same prompt for each of several models, in the order in which they are tried. */
type RoutedPrompts = Targets<RoutedPrompt>;

/**
 * Prepares every provider of the catalogue that has a key. Nothing is loaded or connected before
 * the first call.
 * @param variables values of the variables that the catalogue names (keys and base URLs). An empty
 * value counts as absent.
 * @throws Error whose message lists every variable with an invalid value, without the value
 */
export function openProviders(
  catalogue: Catalogue,
  variables: Readonly<Record<string, string | undefined>>,
  { proxyEnv, clock = systemClock, log, onAttempt, ...limits }: ProviderOptions = {},
) {
  const bounds = { ...DEFAULT_BOUNDS, ...limits };
  const http = createHttpClient(bounds.connectMs, proxyEnv);
  const problems: string[] = [];
  const open = (entry: CatalogueProvider): Upstream | undefined => {
    const { id, dialect, keyVariable, baseUrlVariable } = entry;
    const keys = keysIn(variables[keyVariable] ?? "");
    const baseUrl = variables[baseUrlVariable] || entry.baseUrl;
    if (!keys.every((key) => KEY.test(key))) problems.push(`${keyVariable} ${KEYS}`);
    if (!isBaseUrl(baseUrl)) problems.push(`${baseUrlVariable} ${BASE_URL}`);
    if (keys.length === 0 || problems.length > 0) return undefined;
    return {
      adapter: ADAPTERS[dialect],
      base: urlToHttpOptions(new URL(baseUrl)),
      http,
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
     * Sends a prompt as a {@link Provider} does, and goes on to the next model while one fails before the
     * first byte.
     */
    reply: (prompts: RoutedPrompts, signal: AbortSignal, reserve?: ReserveMemory) =>
      replyTo(upstreamPrompts(prompts), bounds, signal, reserve),
    /**
     * Sends a body whose answer is no reply, such as a count of tokens.
     * @param onTarget is told the index of a model that the call goes on to
     * @returns the answer, a JSON object
     * @throws ProviderError; the reason of the signal once that has fired
     */
    answer: (prompts: RoutedPrompts, signal: AbortSignal, onTarget: (index: number) => void) =>
      answerTo(upstreamPrompts(prompts), bounds, signal, onTarget),
    /** Whether calls that have a choice should stay away from an open provider. */
    isAvoided: (id: string) => upstreamOf(id).health.isAvoided,
    /** How the open providers are doing in this process, by public id. */
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

const KEYS = "must be keys of printable ASCII without spaces, separated by commas";
const KEY = /^[\x21-\x7e]+$/;

/** The keys in the value of a variable. There may be blanks around the commas. */
const keysIn = (value: string): string[] =>
  value === "" ? [] : value.split(",").map((key) => key.replace(/^ +| +$/g, ""));
