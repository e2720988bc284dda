import type { ChatRequest } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import type { CatalogueModel } from "../catalogue.ts";

/**
 * One turn of the conversation, in the public vocabulary; each dialect finds its own place for
 * system text.
 */
export type PromptMessage = { role: "user" | "assistant" | "system"; content: string };

/** What is sent to a model. Only the catalogue decides where it goes. */
export type Prompt = Pick<ChatRequest, "systemPrompt" | "maxTokens" | "temperature"> & {
  model: CatalogueModel;
  /** Requests the reply as a stream. */
  isStream: boolean;
  messages: readonly PromptMessage[];
};

/**
 * Tokens as the provider counts them: input (cached or not) and output (hidden reasoning included).
 */
export type Usage = { inputTokens: number; outputTokens: number };

/** Why a reply ended: by itself, or at the maximum number of tokens. */
export type FinishReason = "stop" | "length";

/**
 * What happens in one call of a provider: `answered`, then any number of `text`, then `usage` if the
 * provider has reported all of it, then `finished`. A call that fails throws in place of the events
 * that are missing; usage may come before the failure. Readers ignore kinds that they do not know.
 */
export type ReplyEvent =
  /**
   * The first attempt that got a response, whatever its status.
   * `sentAt`: when that attempt was sent, by `performance.now()`.
   */
  | { kind: "answered"; sentAt: number }
  /**
   * Text that has arrived since the last pull: whole characters, never empty.
   * `decodingMs`: time spent on decoding the reply so far.
   */
  | { kind: "text"; text: string; decodingMs: number }
  | { kind: "usage"; usage: Usage }
  /** The provider has completed the reply. Always the last event. */
  | { kind: "finished"; reason: FinishReason; decodingMs: number };

/**
 * Reserves memory for a reply, as far as it has come. Called again as the reply grows.
 * @throws ProviderError if there is not enough
 */
export type ReserveMemory = (bytes: number) => void;

/**
 * Sends a prompt to a chat model and reads the reply as events. A reply that is not streamed is one
 * `text`. Sends nothing before the first pull. At its end, or when the loop is left, the upstream
 * connection is free.
 * @param signal aborts when the reply is no longer wanted
 * @throws ProviderError for whatever goes wrong on the provider's side; the reason of the signal
 * once that has fired
 */
export type Provider = (
  prompt: Prompt,
  signal: AbortSignal,
  reserve?: ReserveMemory,
) => AsyncGenerator<ReplyEvent, void>;

/** Bounds of one call: durations in milliseconds. */
export const DEFAULT_BOUNDS = {
  /** Connecting, TLS handshake included. */
  connectMs: 10_000,
  /**
   * From sending an attempt of a stream to its first byte. Also the longest wait of `Retry-After`
   * of a stream.
   */
  firstByteMs: 60_000,
  /**
   * Silence between two pieces of content of a stream (pings, comments and empty deltas are
   * silence), or one document. Also the silence that confirms a finish marker without the proof that
   * `ReplyPhase` describes.
   */
  idleMs: 60_000,
  /** The whole call, attempts and waits included. */
  totalMs: 600_000,
  /**
   * What may still come after the finish marker and its proof (the closing frame), or after the
   * status of an error.
   */
  afterOutcomeMs: 2_000,
  /** Further attempts, before the first byte only. */
  retries: 2,
  /** Wait before the first further attempt; doubles, with jitter. */
  backoffMs: 250,
  /** Everything received in one reply. Bytes. */
  streamBytes: 256 * 1024 * 1024,
  /** What is held of one reply: a document, and all text of a reply that is not streamed. */
  wholeReplyBytes: 16 * 1024 * 1024,
};
export type ProviderBounds = typeof DEFAULT_BOUNDS;
