import type { Readable } from "node:stream";
import type { urlToHttpOptions } from "node:url";
import type { Targets } from "../targets.ts";
import { type Adapter, fitPrompt } from "./adapter.ts";
import { drain, readerOf } from "./body-reader.ts";
import { type Cloud, cloudRoute } from "./clouds/cloud.ts";
import { ReplyDecoder } from "./decode.ts";
import { EMBEDDINGS_PATH, embeddingsBody, embeddingsIn } from "./embeddings.ts";
import { endpointPath } from "./endpoint-path.ts";
import { classifyError, ProviderError, toProviderError } from "./errors.ts";
import type { AttemptOutcome, UpstreamHealth } from "./health.ts";
import { decompressed, type HttpClient, readAll } from "./http-client.ts";
import type {
  AnyPrompt,
  CallObserver,
  CallProgress,
  EmbeddingPrompt,
  Piece,
  Prompt,
  Provider,
  ProviderBounds,
  RelayPrompt,
  ReplyEvent,
  ReserveMemory,
} from "./provider.ts";
import type { ProviderKeys } from "./provider-keys.ts";
import { RELAY_APIS } from "./relay-apis.ts";
import { RelayReader } from "./relay-reader.ts";
import { type Destination, UpstreamRequest } from "./send.ts";

/** A provider that calls can be sent to. */
export type Upstream = {
  adapter: Adapter;
  /** The base URL, parsed once instead of for every request. */
  base: ReturnType<typeof urlToHttpOptions>;
  http: HttpClient;
  /** Sends the requests instead of `base` and `http`, if the provider is in a cloud. */
  cloud?: Cloud | undefined;
  keys: ProviderKeys;
  health: UpstreamHealth;
  /** Called at the end of each attempt with its outcome. */
  onAttempt(outcome: AttemptOutcome): void;
};

/** A prompt and where it goes. */
export type UpstreamPrompt = { upstream: Upstream; prompt: AnyPrompt };
/** The same prompt for each of several models, in the order in which they are tried. */
type UpstreamPrompts = Targets<UpstreamPrompt>;

/**
 * Sends a prompt to a model, or to the next one if it fails before the first byte of the reply, and
 * reads the reply as a {@link Provider} does. Retries, time-outs, size limits, finish markers and
 * clean-up are the same for all dialects, streamed or not.
 */
export async function* replyTo(
  prompts: UpstreamPrompts,
  bounds: ProviderBounds,
  client: AbortSignal,
  { reserve = () => {}, onProgress = () => {} }: CallObserver = {},
): AsyncGenerator<ReplyEvent, void> {
  const { isStream, mostRereads } = prompts[0].prompt;
  const isCollected = isToCollect(prompts[0].prompt);
  const isPassedOn = isStream && !isCollected;
  const request = new UpstreamRequest(client, bounds, onProgress);
  let decoder: ReplyDecoder | undefined;
  let body: Readable | undefined;
  let outcome: AttemptOutcome = "cancelled"; // if the reader leaves
  try {
    const destination = (at: number) => destinationOf(prompts[at] as UpstreamPrompt);
    const { message, index } = await request.send(
      destination,
      prompts.length,
      isPassedOn,
      mostRereads,
    );
    const { upstream, prompt } = prompts[index] as UpstreamPrompt;
    body = decompressed(message);
    const deps = { body, request, bounds, isStream, reserve };
    if ("inputs" in prompt) {
      const received = await readAll(body, bounds.embeddingsBytes, reserve);
      client.throwIfAborted();
      yield* embeddingsIn(received, prompt);
    } else if ("relay" in prompt) {
      const reader = new RelayReader({ ...deps, parser: RELAY_APIS[prompt.relay.api].parser });
      decoder = reader.decoder;
      onProgress(receiving(decoder));
      yield* reader.events();
    } else {
      decoder = new ReplyDecoder(upstream.adapter, isStream, {
        reasoning: prompt.showsReasoning ?? false,
        toolCalls: prompt.tools !== undefined && prompt.tools.length > 0,
      });
      onProgress(receiving(decoder));
      const reader = new ReplyReader({ ...deps, decoder, isCollected });
      for (let event = await reader.next(); event; event = await reader.next()) yield event;
      client.throwIfAborted(); // even if the reply is complete: the client may not have read its text
      yield* reader.end();
    }
    outcome = "completed";
  } catch (thrown) {
    const reason = reasonOf(thrown, client, decoder, request);
    if (reason instanceof ProviderError) outcome = reason.kind;
    throw reason;
  } finally {
    const isDone = isRead(decoder, outcome) && !request.signal.aborted;
    request.end(isDone, outcome);
    if (isDone && body) drain(body);
  }
}

const isToCollect = (prompt: AnyPrompt) => "isCollected" in prompt && prompt.isCollected === true;

/** Whether nothing of a reply is left on its connection. Embeddings are read without a decoder. */
const isRead = (decoder: ReplyDecoder | undefined, outcome: AttemptOutcome) =>
  decoder ? decoder.isClosed : outcome === "completed";

const receiving = (decoder: ReplyDecoder): CallProgress => ({
  kind: "receiving",
  reported: () => decoder.reported,
});

/** The provider of an upstream alone. */
export const createProvider =
  (upstream: Upstream, bounds: ProviderBounds): Provider =>
  (prompt, client, observer) =>
    replyTo([{ upstream, prompt }], bounds, client, observer);

/** Maximum size of a response that is not a reply, in bytes. */
const ANSWER_BYTES = 64 * 1024;

/**
 * Sends a body whose response is not a reply: a token count.
 * @param onTarget receives the index of a model that the call continues with
 * @returns the unchanged response: a JSON object with a count
 * @throws ProviderError; the reason of the signal once that has fired
 */
export async function answerTo(
  prompts: UpstreamPrompts,
  bounds: ProviderBounds,
  client: AbortSignal,
  onTarget: (index: number) => void,
): Promise<string> {
  const request = new UpstreamRequest(client, bounds, (progress) => {
    if (progress.kind === "retrying") onTarget(progress.target);
  });
  let outcome: AttemptOutcome = "cancelled";
  try {
    const destination = (at: number) => destinationOf(prompts[at] as UpstreamPrompt);
    const { message } = await request.send(destination, prompts.length, false);
    const body = await readAll(decompressed(message), ANSWER_BYTES);
    const answer = body.toString();
    assertCount(answer);
    outcome = "completed";
    return answer;
  } catch (thrown) {
    const reason = reasonOf(thrown, client, undefined, request);
    if (reason instanceof ProviderError) outcome = reason.kind;
    throw reason;
  } finally {
    request.end(outcome === "completed", outcome);
  }
}

/** @throws ProviderError if the answer reports an error or has no count */
function assertCount(text: string): void {
  let answer: { error?: unknown; input_tokens?: unknown } | null;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new ProviderError("unreadable reply");
  }
  if (answer?.error) throw new ProviderError(classifyError(answer.error));
  const count = answer?.input_tokens;
  if (!Number.isSafeInteger(count) || Number(count) < 0)
    throw new ProviderError("unreadable reply");
}

/** How a prompt is sent to its model. */
function destinationOf({ upstream, prompt }: UpstreamPrompt): Destination {
  const { cloud, keys, health, onAttempt } = upstream;
  const message = messageOf(upstream, prompt);
  const route = cloud ? cloudRoute(cloud, prompt, message) : routeOf(upstream, message);
  return Object.assign(route, {
    keys,
    onBegin: () => health.begin(),
    onEnd(outcome: AttemptOutcome) {
      health.end(outcome);
      onAttempt(outcome);
    },
  });
}

/** How a request is sent to the base URL of its provider. */
function routeOf(
  { base, http }: Upstream,
  { path, headersFor, body }: UpstreamMessage,
): Pick<Destination, "path" | "post"> {
  const { protocol, hostname, port } = base;
  return {
    path: path.replace(/\?.*/, ""),
    post: (key, signal) =>
      http.post({ protocol, hostname, port, path }, headersFor(key.text), body(), signal),
  };
}

/** A request for an attempt, which is written when it is sent. */
type UpstreamMessage = {
  path: string;
  headersFor(key: string): Record<string, string>;
  body(): object | string;
};

function messageOf(upstream: Upstream, prompt: AnyPrompt): UpstreamMessage {
  if ("inputs" in prompt) return embedding(upstream, prompt);
  return "relay" in prompt ? passedOn(upstream, prompt) : translated(upstream, prompt);
}

/** A prompt in the dialect of its provider. */
function translated({ adapter, base }: Upstream, prompt: Prompt): UpstreamMessage {
  const fitted = fitPrompt(prompt);
  return {
    path: endpointPath(base.path ?? "", adapter.path(fitted)),
    headersFor: (key) => adapter.headers(key, fitted),
    body: () => adapter.body(fitted),
  };
}

/** The path of chat completions. A base URL may end with it although another API is called. */
const CHAT_PATH = /\/chat\/completions\/*$/;

/** A request for embeddings. Only dialects of OpenAI have them. */
function embedding({ base }: Upstream, prompt: EmbeddingPrompt): UpstreamMessage {
  return {
    path: endpointPath((base.path ?? "").replace(CHAT_PATH, ""), EMBEDDINGS_PATH),
    headersFor: (key) => ({ authorization: `Bearer ${key}` }),
    body: () => embeddingsBody(prompt),
  };
}

/** A body of another vendor's API, unchanged. */
function passedOn({ base }: Upstream, prompt: RelayPrompt): UpstreamMessage {
  const { api, headers, bodyFor } = prompt.relay;
  return {
    path: endpointPath((base.path ?? "").replace(CHAT_PATH, ""), RELAY_APIS[api].path),
    headersFor: (key) => ({ ...headers, authorization: `Bearer ${key}` }),
    body: () => bodyFor(prompt),
  };
}

/**
 * Why a reply has failed: the reason of the client's signal if that has fired, otherwise the
 * failure that the provider has reported, the time-out, or whatever was thrown.
 */
function reasonOf(
  thrown: unknown,
  client: AbortSignal,
  decoder: ReplyDecoder | undefined,
  request: UpstreamRequest,
): unknown {
  if (client.aborted) return client.reason;
  if (thrown instanceof ProviderError) return thrown;
  return toProviderError(decoder?.error ?? request.signal.reason ?? thrown, "broke off");
}

type ReaderDeps = {
  body: Readable;
  decoder: ReplyDecoder;
  request: UpstreamRequest;
  bounds: ProviderBounds;
  isStream: boolean;
  /** A stream that the caller receives as a complete reply. */
  isCollected: boolean;
  reserve: ReserveMemory;
};

/** Reads the body of a reply within the limits of time and size until the reply has ended. */
class ReplyReader {
  readonly #deps: ReaderDeps;
  readonly #read: () => Promise<Buffer | undefined>;
  #decodingMs = 0;
  #received = 0;
  /** Characters that the caller collects: all text of a complete reply. */
  #collected = 0;
  /** Pieces for the next calls. */
  #waiting: Piece[] = [];

  constructor(deps: ReaderDeps) {
    this.#deps = deps;
    this.#read = readerOf(deps.body);
    if (deps.isStream && !deps.isCollected) deps.request.resetIdleTimer(deps.bounds.idleMs);
  }

  /**
   * Reads on until there is a piece. The idle timer pauses until the next call.
   * @returns undefined once the reply has ended, well or with `decoder.error`
   * @throws ProviderError, or the error of the body
   */
  async next(): Promise<ReplyEvent | undefined> {
    const waiting = this.#waiting.shift();
    if (waiting) return { ...waiting, decodingMs: this.#decodingMs };
    const { decoder, request } = this.#deps;
    if (decoder.hadContent) this.#resetIdleTimer();
    while (!decoder.isClosed) {
      const bytes = await this.#receive();
      const text = this.#decode(bytes);
      const pieces = decoder.takePieces();
      if (pieces.length > 0)
        return this.#pass(text === "" ? pieces : [...pieces, { kind: "text", text }]);
      if (text !== "") {
        request.pauseIdleTimer();
        return { kind: "text", text, decodingMs: this.#decodingMs };
      }
      if (decoder.hadContent) this.#resetIdleTimer();
    }
    return undefined;
  }

  /** Returns the first of several pieces. The others wait. */
  #pass(pieces: readonly Piece[]): ReplyEvent {
    const [first, ...others] = pieces as [Piece];
    this.#deps.request.pauseIdleTimer();
    this.#reserve(
      pieces.reduce((sum, piece) => sum + ("text" in piece ? piece.text.length : 0), 0),
    );
    this.#waiting = others;
    return { ...first, decodingMs: this.#decodingMs };
  }

  /**
   * The events after the last text.
   * @throws ProviderError if the reply has failed
   */
  *end(): Generator<ReplyEvent, void> {
    const { decoder } = this.#deps;
    for (const piece of decoder.lastPieces()) yield { ...piece, decodingMs: this.#decodingMs };
    const { usage, error, finishReason } = decoder;
    if (usage) yield { kind: "usage", usage, details: decoder.detailsOf(usage) };
    if (error) throw error;
    if (!finishReason) throw new ProviderError("broke off");
    yield { kind: "finished", reason: finishReason, decodingMs: this.#decodingMs };
  }

  /**
   * The bytes that have arrived; undefined at the end of the body, or if the reply ends without it.
   */
  async #receive(): Promise<Buffer | undefined> {
    const { decoder, request } = this.#deps;
    try {
      return await this.#read();
    } catch (thrown) {
      if (decoder.endsWith(request.isSilent ? "silence" : "a break")) return undefined;
      throw thrown;
    }
  }

  #decode(bytes: Buffer | undefined): string {
    const { decoder } = this.#deps;
    if (!bytes) return this.#decodeEnd();
    this.#received += bytes.length;
    if (this.#received > this.#deps.bounds.streamBytes) throw new ProviderError("reply too large");
    const startedAt = performance.now();
    const text = decoder.push(bytes);
    this.#decodingMs += performance.now() - startedAt;
    this.#reserve(text.length);
    return text;
  }

  #decodeEnd(): string {
    const { decoder, isStream } = this.#deps;
    if (this.#received === 0 && !isStream) throw new ProviderError("unreadable reply");
    const text = decoder.end();
    this.#reserve(text.length);
    return text;
  }

  /** Limits what is held of the reply, whatever its framing, and reserves memory for it. */
  #reserve(characters: number): void {
    const { isStream, isCollected, bounds, decoder, reserve } = this.#deps;
    if (!isStream || isCollected) this.#collected += characters;
    const held = this.#collected + decoder.heldLength;
    if (held > bounds.wholeReplyBytes) throw new ProviderError("reply too large");
    reserve(held);
  }

  #resetIdleTimer(): void {
    this.#deps.request.resetIdleTimer(this.#longestSilenceMs);
  }

  get #longestSilenceMs(): number {
    const { decoder, bounds, isCollected } = this.#deps;
    if (decoder.phase === "proven") return bounds.afterOutcomeMs;
    return isCollected && decoder.phase === "open" ? bounds.totalMs : bounds.idleMs; // as of a whole reply
  }
}
