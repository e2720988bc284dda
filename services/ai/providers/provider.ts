import type { ChatRequest } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import type { CatalogueModel } from "../catalogue.ts";

/** One message of a conversation. Each dialect has its own place for system text. */
export type PromptMessage = { role: "user" | "assistant" | "system"; content: string };

/** What is sent to a model. The catalogue alone decides where it is sent. */
export type Prompt = Pick<ChatRequest, "systemPrompt" | "maxTokens" | "temperature"> & {
  model: CatalogueModel;
  /** Whether to request a stream. */
  isStream: boolean;
  messages: readonly PromptMessage[];
};

/**
 * Tokens as counted by the provider: input includes cached input, output includes hidden reasoning.
 */
export type Usage = { inputTokens: number; outputTokens: number };

/** Why a reply ended: it is complete, or has reached the maximum number of tokens. */
export type FinishReason = "stop" | "length";

/**
 * What happens in one call of a provider: `answered`, then any number of `text`, then `usage` if
 * the provider has reported all of it, then `finished`. A call that fails throws in place of the
 * events that are missing; usage may come before the failure. Readers ignore kinds that they do not
 * know.
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
 * Reserves memory for what is held of a reply. Called again as the reply grows.
 * @param bytes the total to reserve, not an increment
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

/** Bounds of one call. Durations are in milliseconds. */
export const DEFAULT_BOUNDS = {
  /** Connecting, including the TLS handshake. */
  connectMs: 10_000,
  /**
   * From sending an attempt of a stream to its first byte. Also the longest `Retry-After` that a
   * stream waits for.
   */
  firstByteMs: 60_000,
  /**
   * Silence between two chunks of content of a stream, or within a document. Pings, comments and
   * empty deltas count as silence. Also the silence that confirms a finish marker which is not
   * `proven` (see `ReplyPhase`).
   */
  idleMs: 60_000,
  /** The whole call, including all attempts and waits. */
  totalMs: 600_000,
  /**
   * Wait for the closing frame once the end of the reply is `proven`, and for the body of an error
   * response.
   */
  afterOutcomeMs: 2_000,
  /** Maximum number of retries. Only before the first byte of a reply. */
  retries: 2,
  /** Wait before the first retry. Doubles with each retry, with jitter. */
  backoffMs: 250,
  /** Maximum size of a received reply, in bytes. */
  streamBytes: 256 * 1024 * 1024,
  /** Maximum size of what is held of a reply: a document, and all text if it is not streamed. */
  wholeReplyBytes: 16 * 1024 * 1024,
};
export type ProviderBounds = typeof DEFAULT_BOUNDS;
