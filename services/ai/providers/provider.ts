import type { CatalogueModel } from "../catalogue.ts";

/** One turn of the conversation, in the public vocabulary; each dialect finds its own place for system text. */
export type PromptMessage = { role: "user" | "assistant" | "system"; content: string };

/** What is sent to a model. Only the catalogue decides where it goes. */
export type Prompt = {
  model: CatalogueModel;
  /** Instruction placed before the conversation. */
  system?: string | undefined;
  messages: readonly PromptMessage[];
  maxTokens?: number | undefined;
  temperature?: number | undefined;
};

/** Tokens as the provider counts them: input (cached or not) and output (hidden reasoning included). */
export type Usage = { inputTokens: number; outputTokens: number };

/** A complete reply. `usage` is absent if the provider did not report it. */
export type Completion = { content: string; usage?: Usage | undefined };

/** Observes one call of a provider. */
export type CallObserver = {
  /** An attempt was sent, at that `performance.now()`. Called when its response has begun. */
  onSent(at: number): void;
  /** Decoding what the provider sent took so many milliseconds. */
  onDecoded(ms: number): void;
  /** The provider reported the usage of a streamed reply, which is complete. */
  onUsage(usage: Usage): void;
};

/**
 * A chat model host. Both functions throw ProviderError for whatever goes wrong on the provider's side, and the signal's
 * own reason when that fires. Either way the upstream connection is free by then.
 */
export type Provider = {
  complete(prompt: Prompt, signal: AbortSignal, observer?: CallObserver): Promise<Completion>;
  /**
   * Streams a reply: pieces of text that are never empty, of whole characters. Text that has arrived since the last pull
   * is one piece. Ends without an error only if the provider has ended the reply by its finish marker. Leaving the loop
   * closes the upstream connection.
   */
  stream(prompt: Prompt, signal: AbortSignal, observer?: CallObserver): AsyncIterable<string>;
};

/** Bounds of one call: durations in milliseconds, sizes in bytes. */
export type ProviderBounds = {
  /** Connecting, TLS handshake included. */
  connectMs: number;
  /** From sending an attempt of a stream to its first byte. Also the longest wait of `Retry-After` of a stream. */
  firstByteMs: number;
  /** Silence between two pieces of content of a stream. Pings, comments and empty deltas are silence. */
  idleMs: number;
  /** The whole call, attempts and waits included. */
  totalMs: number;
  /** What may still come after the finish marker (usage, the closing frame). */
  afterFinishMs: number;
  /** Further attempts, before the first byte only. */
  retries: number;
  /** Wait before the first further attempt; doubles, with jitter. */
  backoffMs: number;
  /** One event of a stream. */
  eventBytes: number;
  /** The whole body of an answer to `complete`. */
  chatBytes: number;
  /** Everything received in one stream. */
  streamBytes: number;
};

const MIB = 1024 * 1024;

export const DEFAULT_BOUNDS: Readonly<ProviderBounds> = {
  connectMs: 10_000,
  firstByteMs: 60_000,
  idleMs: 60_000,
  totalMs: 600_000,
  afterFinishMs: 2_000,
  retries: 2,
  backoffMs: 250,
  eventBytes: MIB,
  chatBytes: 16 * MIB,
  streamBytes: 256 * MIB,
};
