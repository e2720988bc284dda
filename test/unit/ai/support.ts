import { afterAll, onTestFinished } from "vitest";
import { anthropicEncoder } from "../../../scripts/simulators/anthropic.ts";
import { googleEncoder } from "../../../scripts/simulators/google.ts";
import { mistralEncoder, openaiEncoder } from "../../../scripts/simulators/openai.ts";
import {
  type SimulatedDialect,
  type Simulator,
  startProviderSimulator,
} from "../../../scripts/simulators/simulator.ts";
import { type CatalogueProvider, readCatalogue } from "../../../services/ai/catalogue.ts";
import { anthropicParser } from "../../../services/ai/providers/anthropic.ts";
import { ReplyDecoder, type ResponseParser } from "../../../services/ai/providers/decode.ts";
import { ProviderError } from "../../../services/ai/providers/errors.ts";
import { googleParser } from "../../../services/ai/providers/google.ts";
import { openaiParser } from "../../../services/ai/providers/openai.ts";
import {
  DEFAULT_BOUNDS,
  type Prompt,
  type Provider,
  type ProviderBounds,
  type Usage,
} from "../../../services/ai/providers/provider.ts";
import { openProviders } from "../../../services/ai/providers/providers.ts";

/** The encoder of the simulator and the parser of the product, by dialect. */
export const CODECS = [
  ["openai", openaiEncoder, openaiParser],
  ["openai-compatible", mistralEncoder, openaiParser],
  ["anthropic", anthropicEncoder, anthropicParser],
  ["google", googleEncoder, googleParser],
] as const;
export const REQUEST = { model: "simulated", stream: true, usage: true, lastMessage: "", input: "" };
export const TOKENS = { input: 11, output: 22 };

/** The frames of events without a name. */
export const framesOf = (...events: object[]) => events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");

/** Decodes a stream. @param parts its bytes as they arrive */
export function decode(parser: ResponseParser, ...parts: (string | Uint8Array)[]) {
  const decoder = new ReplyDecoder(parser, DEFAULT_BOUNDS.eventBytes);
  let text = "";
  for (const part of parts) text += decoder.push(Buffer.from(part));
  text += decoder.end();
  return { text, usage: decoder.usage, error: decoder.error?.kind };
}

/** A simulated provider and the adapter that calls it. */
export type Bench = {
  entry: CatalogueProvider;
  provider: Provider;
  simulator: Simulator;
  close(): Promise<void>;
};

/** Starts the simulator of a dialect, and opens its provider of the shipped catalogue. */
export async function startBench(dialect: SimulatedDialect, limits: Partial<ProviderBounds> = {}): Promise<Bench> {
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
  return { entry, provider, simulator, close };
}

/** Starts a bench for one suite, and closes it after the suite. */
export async function startSuiteBench(...options: Parameters<typeof startBench>): Promise<Bench> {
  const bench = await startBench(...options);
  afterAll(() => bench.close());
  return bench;
}

/** Starts a bench for one test, which may not be concurrent, and closes it after the test. */
export async function startTestBench(...options: Parameters<typeof startBench>): Promise<Bench> {
  const bench = await startBench(...options);
  onTestFinished(() => bench.close());
  return bench;
}

/** A prompt of one message, for the default model. */
export function promptOf({ entry }: Pick<Bench, "entry">, content: string): Prompt {
  return { model: entry.models[0], messages: [{ role: "user", content }] };
}

const never = () => new AbortController().signal;

/** The outcome of a call. */
export type Outcome = { text: string; usage?: Usage | undefined; failure?: string };

/** Reads a stream to its end or failure. */
export async function readStream(provider: Provider, prompt: Prompt): Promise<Outcome> {
  const outcome: Outcome = { text: "" };
  try {
    const observer = {
      onSent() {},
      onDecoded() {},
      onUsage(usage: Usage) {
        outcome.usage = usage;
      },
    };
    for await (const text of provider.stream(prompt, never(), observer)) outcome.text += text;
  } catch (thrown) {
    outcome.failure = failureOf(thrown);
  }
  return outcome;
}

/** Requests a whole reply. */
export async function readWhole(provider: Provider, prompt: Prompt): Promise<Outcome> {
  try {
    const { content, usage } = await provider.complete(prompt, never());
    return { text: content, usage };
  } catch (thrown) {
    return { text: "", failure: failureOf(thrown) };
  }
}

function failureOf(thrown: unknown): string {
  if (thrown instanceof ProviderError) return thrown.kind;
  throw thrown;
}
