import { urlToHttpOptions } from "node:url";
import { anthropicEncoder } from "../../../scripts/simulators/anthropic.ts";
import { googleEncoder } from "../../../scripts/simulators/google.ts";
import { mistralEncoder, openaiEncoder } from "../../../scripts/simulators/openai.ts";
import {
  type SimulatedDialect,
  startProviderSimulator,
} from "../../../scripts/simulators/simulator.ts";
import { type CatalogueProvider, readCatalogue } from "../../../services/ai/catalogue.ts";
import type { Adapter } from "../../../services/ai/providers/adapter.ts";
import { anthropicAdapter } from "../../../services/ai/providers/anthropic.ts";
import { ReplyDecoder } from "../../../services/ai/providers/decode.ts";
import { ProviderError } from "../../../services/ai/providers/errors.ts";
import { googleAdapter } from "../../../services/ai/providers/google.ts";
import { UpstreamHealth } from "../../../services/ai/providers/health.ts";
import type { HttpClient } from "../../../services/ai/providers/http-client.ts";
import { openaiAdapter } from "../../../services/ai/providers/openai.ts";
import {
  DEFAULT_BOUNDS,
  type Provider,
  type ProviderBounds,
  type ReserveMemory,
  type Prompt as SentPrompt,
  type Usage,
} from "../../../services/ai/providers/provider.ts";
import { ProviderKeys } from "../../../services/ai/providers/provider-keys.ts";
import { openProviders } from "../../../services/ai/providers/providers.ts";
import { createProvider } from "../../../services/ai/providers/reply.ts";
import { systemClock } from "../../../services/platform/process/clock.ts";
import { forSuite, forTest } from "../../support/suites.ts";

/** The encoder of the simulator and the adapter of the product, by dialect. */
export const CODECS = [
  ["openai", openaiEncoder, openaiAdapter],
  ["openai-compatible", mistralEncoder, openaiAdapter],
  ["anthropic", anthropicEncoder, anthropicAdapter],
  ["google", googleEncoder, googleAdapter],
] as const;
export const REQUEST = {
  model: "simulated",
  stream: true,
  usage: true,
  lastMessage: "",
  input: "",
};
export const TOKENS = { input: 11, output: 22 };

type Dialect = ConstructorParameters<typeof ReplyDecoder>[0];

/** The frames of events without a name. */
export const framesOf = (...events: object[]) =>
  events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");

/**
 * Decodes a stream.
 * @param parts its bytes as they arrive
 */
export function decode(dialect: Dialect, ...parts: (string | Uint8Array)[]) {
  const decoder = new ReplyDecoder(dialect);
  let text = "";
  for (const part of parts) text += decoder.push(Buffer.from(part));
  text += decoder.end();
  return { text, usage: decoder.usage, error: decoder.error?.kind };
}

/** Decodes a reply that comes as one document. */
export function decodeDocument(dialect: Dialect, document: unknown) {
  const decoder = new ReplyDecoder(dialect);
  const text = decoder.push(Buffer.from(JSON.stringify(document))) + decoder.end();
  return { text, usage: decoder.usage, error: decoder.error?.kind };
}

/** A prompt, whether or not its reply is streamed. */
export type Prompt = Omit<SentPrompt, "isStream">;

/** A simulated provider and the adapter that calls it. */
export type Bench = Awaited<ReturnType<typeof startBench>>;

/** Starts the simulator of a dialect, and opens its provider of the shipped catalogue. */
export async function startBench(dialect: SimulatedDialect, limits: Partial<ProviderBounds> = {}) {
  const catalogue = readCatalogue();
  const entry = catalogue.providers.find((provider) => provider.dialect === dialect);
  if (!entry) throw new Error(`No provider speaks ${dialect}.`);
  const simulator = await startProviderSimulator({ dialect });
  const providers = openProviders(catalogue, simulator.env, { backoffMs: 1, ...limits });
  const provider = providers.byId.get(entry.id);
  if (!provider) throw new Error("The provider has a key and isn't open.");
  const close = async () => {
    providers.close();
    await simulator.close();
  };
  const promptOf = (name: string) => promptFor(entry, `case: ${name}`);
  const toPrompt = (given: string | Prompt) =>
    typeof given === "string" ? promptOf(given) : given;
  return {
    entry,
    provider,
    simulator,
    close,
    /** A prompt for a case of the simulator. */
    promptOf,
    /**
     * Reads a streamed reply to its end or failure.
     * @param given a prompt, or the name of a case
     */
    stream: (given: string | Prompt) => readReply(provider, { ...toPrompt(given), isStream: true }),
    /** Reads a reply that is not streamed. */
    whole: (given: string | Prompt) => readReply(provider, { ...toPrompt(given), isStream: false }),
  };
}

/** A provider without retries whose requests a function answers. */
export function providerAnswering(adapter: Adapter, post: unknown): Provider {
  const upstream = {
    adapter,
    base: urlToHttpOptions(new URL("http://127.0.0.1:9/v1")),
    http: { post } as HttpClient,
    keys: new ProviderKeys(["key"], systemClock),
    health: new UpstreamHealth(systemClock),
    onAttempt() {},
  };
  return createProvider(upstream, { ...DEFAULT_BOUNDS, retries: 0 });
}

/** Starts a bench for one suite, and closes it after the suite. */
export const startSuiteBench = (...options: Parameters<typeof startBench>) =>
  forSuite(startBench(...options));

/** Starts a bench for one test, which may not be concurrent, and closes it after the test. */
export const startTestBench = (...options: Parameters<typeof startBench>) =>
  forTest(startBench(...options));

/** A prompt of one message, for the default model. */
export const promptFor = ({ models }: CatalogueProvider, content: string): Prompt => ({
  model: models[0],
  messages: [messageOf("user", content)],
});

/** A message of one text. */
export const messageOf = (
  role: SentPrompt["messages"][number]["role"],
  text: string,
): SentPrompt["messages"][number] => ({ role, parts: [{ text }] });

/** The outcome of a call. */
type Outcome = { text: string; usage?: Usage | undefined; failure?: string };

export async function readReply(
  provider: Provider,
  prompt: SentPrompt,
  reserve?: ReserveMemory,
): Promise<Outcome> {
  let text = "";
  let usage: Usage | undefined;
  try {
    for await (const event of provider(prompt, new AbortController().signal, { reserve })) {
      if (event.kind === "text") text += event.text;
      if (event.kind === "usage") usage = event.usage;
    }
    return { text, usage };
  } catch (thrown) {
    if (!(thrown instanceof ProviderError)) throw thrown;
    return { text: prompt.isStream ? text : "", failure: thrown.kind };
  }
}
