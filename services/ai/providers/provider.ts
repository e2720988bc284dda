import type { CatalogueModel } from "../catalogue.ts";

/** An image, in base64 with its media type, or by its address. */
export type PromptImage = { mediaType: string; data: string; url: string; detail: string };

/** A part of a message. */
export type PromptPart = { text: string } | { image: PromptImage };

/** A tool call of an earlier reply. */
export type PromptToolCall = {
  /** Without a signature, see `readCallId`. */
  id: string;
  name: string;
  /** A JSON object. */
  arguments: string;
  /** Google's signature of the thoughts before the call, in base64. */
  signature?: string | undefined;
};

/** One message of a conversation. Each dialect has its own place for system text. */
export type PromptMessage = {
  role: "user" | "assistant" | "system" | "tool";
  parts: readonly PromptPart[];
  /** Of an `assistant` message. */
  toolCalls?: readonly PromptToolCall[];
  /** Of a `tool` message: the call whose result it is. */
  resultOf?: PromptToolCall;
};

/** A tool that the model may call. */
export type PromptTool = {
  name: string;
  description?: string | undefined;
  /** JSON Schema of the arguments. */
  parameters?: object | undefined;
  strict?: boolean | undefined;
};

/** Format of a reply other than text. */
export type PromptFormat =
  | { type: "json_object" }
  | {
      type: "json_schema";
      name: string;
      description?: string | undefined;
      schema: object;
      strict?: boolean | undefined;
    };

/** How much a model reasons before it replies. */
export type ReasoningEffort = NonNullable<CatalogueModel["reasoningEffort"]>;

/**
 * What is sent to a model. The catalogue alone decides where it is sent. A field that the model
 * does not support is absent.
 */
export type Prompt = {
  model: CatalogueModel;
  /** Whether to request a stream. */
  isStream: boolean;
  /**
   * Whether the caller receives the stream as a complete reply, so that the limits of complete
   * replies apply.
   */
  isCollected?: boolean;
  /**
   * Maximum number of attempts that are repeated although the provider may have read them.
   * Unlimited by default.
   */
  mostRereads?: number;
  messages: readonly PromptMessage[];
  /** Precedes the system text of the messages. */
  systemPrompt?: string | undefined;
  maxTokens?: number | undefined;
  temperature?: number | undefined;
  topP?: number | undefined;
  frequencyPenalty?: number | undefined;
  presencePenalty?: number | undefined;
  stop?: readonly string[];
  seed?: number | undefined;
  /** Replaces that of the catalogue. */
  reasoningEffort?: ReasoningEffort | undefined;
  tools?: readonly PromptTool[];
  toolChoice?: { mode: "none" | "auto" | "required" | "function"; name: string } | undefined;
  parallelToolCalls?: boolean | undefined;
  format?: PromptFormat | undefined;
  /** Whether the text of the reasoning is part of the reply. */
  showsReasoning?: boolean;
};

/** Another vendor's API whose requests and replies are passed on unchanged. */
export type RelayApi = "messages" | "count_tokens" | "responses";

/** A body that is passed on to a model unchanged, except for the name of the model. */
export type RelayPrompt = {
  model: CatalogueModel;
  /** Whether the body asks for a stream. */
  isStream: boolean;
  /** Maximum number of output tokens. It may be lower than that of the body, never higher. */
  maxTokens?: number | undefined;
  /** As in {@link Prompt}. */
  mostRereads?: number;
  relay: {
    api: RelayApi;
    /**
     * Size of the body that the caller has sent, in bytes, and number of images and files in it.
     */
    bytes: number;
    images: number;
    files: number;
    /** Size of the files in base64. */
    fileCharacters: number;
    /** The body for a model. */
    bodyFor(prompt: Pick<RelayPrompt, "model" | "maxTokens">): string;
    /** Headers of the API, without the key. */
    headers: Readonly<Record<string, string>>;
  };
};

/** Texts whose embeddings are requested. */
export type EmbeddingPrompt = {
  model: CatalogueModel;
  isStream: false;
  /** As in {@link Prompt}. */
  mostRereads?: number;
  /** At least one. */
  inputs: readonly string[];
  /** Length of the vectors. By default that of the model. */
  dimensions?: number | undefined;
  /** Encoding of the vectors. The default is `float`. */
  encodingFormat?: "float" | "base64" | undefined;
};

/** Whatever is sent to a model. */
export type AnyPrompt = Prompt | RelayPrompt | EmbeddingPrompt;

/** An embedding: its numbers, or these as 32-bit floats, little-endian, in base64. */
export type Vector = { numbers: readonly number[] } | { base64: string };

/**
 * Tokens as counted by the provider: input includes cached input, output includes hidden reasoning.
 */
export type Usage = { inputTokens: number; outputTokens: number };

/** Tokens of a reply by kind. All of them are part of its {@link Usage}. */
export type UsageDetails = {
  /** Input from the provider's cache. */
  cachedInputTokens: number;
  /** Input written to the provider's cache. */
  cacheWriteTokens: number;
  /** The part of `cacheWriteTokens` that is kept for an hour. */
  cacheWrite1hTokens: number;
  reasoningTokens: number;
};

/**
 * What a provider has reported about a reply so far. Counts that it has not reported are absent.
 */
export type ReportedUsage = Partial<Usage> & UsageDetails;

/**
 * Why a reply ended: it is complete, has reached the maximum number of tokens, or waits for the
 * results of its tool calls.
 */
export type FinishReason = "stop" | "length" | "tool_calls";

/**
 * A piece of a reply. Texts are whole characters and never empty, except for the arguments of a
 * tool call.
 */
export type Piece =
  | { kind: "text"; text: string }
  /** Only if the prompt asks for it. */
  | { kind: "reasoning"; text: string }
  /**
   * Only if the prompt offers tools. The first piece of a call has its id and name, the others
   * neither.
   */
  | ({ kind: "tool-call"; index: number; arguments: string } & Partial<
      Pick<PromptToolCall, "id" | "name" | "signature">
    >);

/**
 * What one call of a provider has come to before its reply: `sending`, `answered`, `retrying`
 * before each further attempt, `receiving` once a reply begins.
 */
export type CallProgress =
  /**
   * The first attempt is about to be sent. `isUnread`: whether the provider has certainly not read
   * the input of the latest attempt by the time it is called.
   */
  | { kind: "sending"; isUnread: () => boolean }
  /**
   * The first attempt that got a response, whatever its status.
   * `sentAt`: when that attempt was sent, by `performance.now()`.
   */
  | { kind: "answered"; sentAt: number }
  /**
   * `reported`: what the provider has reported by the time it is called, for an interrupted reply.
   */
  | { kind: "receiving"; reported: () => ReportedUsage }
  /**
   * The request is about to be sent once more. `target`: index of the model that gets it, if the
   * call has several. `mayBeRead`: the provider may have read the input of the attempt before and
   * charge for it, although no reply has come.
   */
  | { kind: "retrying"; target: number; mayBeRead: boolean };

/**
 * What a reply consists of: any number of pieces, then `usage` if the provider has reported all of
 * it, then `finished`. A reply that fails throws instead of the events that are missing; usage may
 * come before the failure. Readers ignore kinds that they do not know.
 */
export type ReplyEvent =
  /**
   * What has arrived since the last pull.
   * `decodingMs`: time spent on decoding the reply so far.
   */
  | (Piece & { decodingMs: number })
  /**
   * The latest events of a reply that is passed on, or all of it, unchanged. Comes after their
   * pieces.
   */
  | { kind: "relayed"; data: string }
  /** The embeddings of all inputs, in their order. */
  | { kind: "embeddings"; vectors: readonly Vector[]; decodingMs: number }
  | { kind: "usage"; usage: Usage; details: UsageDetails }
  /** The provider has completed the reply. Always the last event. */
  | { kind: "finished"; reason: FinishReason; decodingMs: number };

/**
 * Reserves memory for the buffered part of a reply. Called again as the reply grows.
 * @param bytes the total to reserve, not an increment
 * @throws ProviderError if there is not enough
 */
export type ReserveMemory = (bytes: number) => void;

/** Who is told of a call while it is made. */
export type CallObserver = {
  reserve?: ReserveMemory | undefined;
  onProgress?(progress: CallProgress): void;
};

/**
 * Sends a prompt to a chat model and reads the reply as events. A reply that is not requested as a
 * stream is one `text`. Sends nothing before the first pull. At its end, or when the loop is left,
 * the upstream connection is free.
 * @param signal aborts when the reply is no longer wanted
 * @throws ProviderError for whatever goes wrong on the provider's side; the reason of the signal
 * once that has fired
 */
export type Provider = (
  prompt: Prompt,
  signal: AbortSignal,
  observer?: CallObserver,
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
  /**
   * Maximum size of embeddings: 2,048 vectors of 3,072 numbers in base64, or of 1,536 as text, have
   * 42 MB at most.
   */
  embeddingsBytes: 48 * 1024 * 1024,
};
export type ProviderBounds = typeof DEFAULT_BOUNDS;
