import type { Take } from "../../flow.ts";
import type { CatalogueModel } from "../catalogue.ts";

/** One turn of the conversation, in the public vocabulary; each dialect finds its own place for system text. */
export type PromptMessage = { role: "user" | "assistant" | "system"; content: string };

/** What is asked of a model. Only the catalogue decides where it goes. */
export type Prompt = {
  model: CatalogueModel;
  /** Instruction placed before the conversation. */
  system?: string | undefined;
  messages: readonly PromptMessage[];
  maxTokens?: number | undefined;
  temperature?: number | undefined;
};

/** Tokens as the provider counted them: what it read (cached or not) and what it wrote (hidden reasoning included). */
export type Usage = { inputTokens: number; outputTokens: number };

/** The whole reply. `usage` is absent when the provider didn't report any. */
export type Completion = { content: string; usage?: Usage | undefined };

/** Told what a call costs this process. */
export type CallTimings = {
  /** An attempt left for the provider, by `performance.now()`; told once it is answered. */
  sent(at: number): void;
  /** So many milliseconds went into what the provider answered. */
  worked(ms: number): void;
};

/**
 * A chat model host. Both functions throw ProviderFailure for whatever goes wrong on the provider's side and the
 * signal's own reason when that fires; either way the upstream connection is free by then.
 */
export type Provider = {
  complete(prompt: Prompt, signal: AbortSignal, timings?: CallTimings): Promise<Completion>;
  /**
   * Hands over a reply as it comes: texts that are never empty, of whole characters. What `take` throws ends the reply,
   * and is thrown again. It resolves when the provider has ended the reply with its finish marker, with what it cost,
   * unless the provider didn't say.
   */
  stream(prompt: Prompt, take: Take<string>, signal: AbortSignal, timings?: CallTimings): Promise<Usage | undefined>;
};

/** Bounds of one call: durations in milliseconds, sizes in bytes. */
export type ProviderBounds = {
  /** Until the connection stands. */
  connectMs: number;
  /** From sending an attempt to its first byte. */
  firstByteMs: number;
  /** Silence between two pieces of content; pings, comments and empty deltas are silence. */
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
