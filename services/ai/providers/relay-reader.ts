import type { Readable } from "node:stream";
import type { ParsedEvent, ReplyParser } from "./adapter.ts";
import { readerOf } from "./body-reader.ts";
import { ReplyDecoder } from "./decode.ts";
import { isPromptTooLong, ProviderError } from "./errors.ts";
import { EventSplitter } from "./event-splitter.ts";
import type { Piece, ProviderBounds, ReplyEvent, ReserveMemory } from "./provider.ts";
import type { UpstreamRequest } from "./send.ts";

/** Maximum size of an incomplete event, in bytes. */
const EVENT_BYTES = 16 * 1024 * 1024;
/** A line of SSE: a field or a comment. */
const SSE_LINE = /^(?:data|event|id|retry)?:/;
/** The data of an event. */
const DATA_LINE = /^data:/m;
/** Keep-alive events of providers, by their name or the type in their data. */
const IDLE_EVENT = /^(?:event: ?|data: ?\{\s*"type"\s*:\s*")(?:ping|keepalive)\b/m;

type RelayDeps = {
  body: Readable;
  parser: ReplyParser;
  request: UpstreamRequest;
  bounds: ProviderBounds;
  isStream: boolean;
  reserve: ReserveMemory;
};

/**
 * Passes a reply on event by event, unchanged, and reads its usage and whether it is complete.
 * Events that report an error, or cannot be read, are not passed on.
 */
export class RelayReader {
  readonly #deps: RelayDeps;
  readonly decoder: ReplyDecoder;
  readonly #read: () => Promise<Buffer | undefined>;
  readonly #splitter = new EventSplitter();
  #received = 0;
  #decodingMs = 0;
  /** The reply was ended by a filter, and says so itself. */
  #isBlocked = false;
  /** The latest event that is not passed on. */
  #withheld = "";

  constructor(deps: RelayDeps) {
    this.#deps = deps;
    const { parse, ...parser } = deps.parser;
    const readAlong = (document: object) => this.#withoutVerdict(parse(document));
    const wanted = { reasoning: true, toolCalls: true };
    this.decoder = new ReplyDecoder({ ...parser, parse: readAlong }, deps.isStream, wanted);
    this.#read = readerOf(deps.body);
    if (deps.isStream) deps.request.resetIdleTimer(deps.bounds.idleMs);
  }

  /**
   * Reads the reply to its end.
   * @throws ProviderError, or the error of the body
   */
  async *events(): AsyncGenerator<ReplyEvent, void> {
    yield* this.#deps.isStream ? this.#stream() : this.#whole();
    const { decoder } = this;
    const { usage, error, finishReason } = decoder;
    if (usage) yield { kind: "usage", usage, details: decoder.detailsOf(usage) };
    if (error) throw this.#failureOf(error);
    if (this.#isBlocked) throw new ProviderError("blocked the content");
    if (!finishReason) throw new ProviderError("broke off");
    yield { kind: "finished", reason: finishReason, decodingMs: this.#decodingMs };
  }

  /** The client reads how a reply has ended. Here only the end itself matters. */
  #withoutVerdict({ skipped: _skipped, endsWithToolCall: _call, ...event }: ParsedEvent) {
    if (!event.finish || !("failure" in event.finish)) return event;
    if (event.finish.failure === "blocked the content") this.#isBlocked = true;
    return { ...event, finish: { reason: "stop" as const } };
  }

  async *#stream(): AsyncGenerator<ReplyEvent, void> {
    const { request, bounds } = this.#deps;
    while (!this.decoder.isClosed) {
      const bytes = await this.#receive();
      if (!bytes) return yield* this.#end();
      const { pieces, passed, isActive } = this.#take(bytes);
      if (isActive) request.pauseIdleTimer();
      for (const piece of pieces) yield { ...piece, decodingMs: this.#decodingMs };
      if (passed !== "") yield { kind: "relayed", data: passed };
      if (isActive) request.resetIdleTimer(bounds.idleMs);
    }
  }

  async *#whole(): AsyncGenerator<ReplyEvent, void> {
    const { bounds, reserve } = this.#deps;
    const parts: Buffer[] = [];
    for (let bytes = await this.#receive(); bytes; bytes = await this.#receive()) {
      parts.push(bytes);
      if (this.#received > bounds.wholeReplyBytes) throw new ProviderError("reply too large");
      reserve(this.#received);
    }
    const body = Buffer.concat(parts);
    const pieces = [...this.#decode(body), ...this.#decodeEnd()];
    for (const piece of pieces) yield { ...piece, decodingMs: this.#decodingMs };
    this.#withheld = body.toString();
    if (this.decoder.error) return;
    const isAlone = isObjectText(this.#withheld); // nothing follows it, such as `[DONE]`
    if (!this.decoder.isDocument || !isAlone) throw new ProviderError("unreadable reply");
    yield { kind: "relayed", data: this.#withheld };
  }

  async #receive(): Promise<Buffer | undefined> {
    const bytes = await this.#read();
    this.#received += bytes?.length ?? 0;
    if (this.#received > this.#deps.bounds.streamBytes) throw new ProviderError("reply too large");
    return bytes;
  }

  /** Returns the complete events, up to one that reports an error. */
  #take(bytes: Buffer): { pieces: Piece[]; passed: string; isActive: boolean } {
    const pieces: Piece[] = [];
    let [passed, isActive] = ["", false];
    for (const event of this.#splitter.push(bytes)) {
      pieces.push(...this.#decode(event));
      const text = event.toString();
      if (this.decoder.error) this.#withheld = text;
      if (this.decoder.error) break;
      assertEvent(text);
      passed += text;
      isActive ||= DATA_LINE.test(text) && !IDLE_EVENT.test(text);
      if (this.decoder.isClosed) break;
    }
    this.#limitHeld();
    return { pieces, passed, isActive };
  }

  /**
   * The last event may lack its blank line. Without the closing frame of its API a reply is
   * incomplete.
   */
  *#end(): Generator<ReplyEvent, void> {
    const event = Buffer.concat([this.#splitter.takeRest(), Buffer.from("\n\n")]);
    const pieces = this.#decode(event);
    const isOver = this.decoder.isClosed;
    pieces.push(...this.#decodeEnd());
    for (const piece of pieces) yield { ...piece, decodingMs: this.#decodingMs };
    this.#withheld = event.toString();
    if (this.decoder.error) return;
    if (!isOver) throw new ProviderError("broke off");
    assertEvent(this.#withheld);
    yield { kind: "relayed", data: this.#withheld };
  }

  #decode(bytes: Buffer): Piece[] {
    const startedAt = performance.now();
    const text = this.decoder.push(bytes);
    this.#decodingMs += performance.now() - startedAt;
    return this.#piecesBefore(text);
  }

  #decodeEnd(): Piece[] {
    return this.#piecesBefore(this.decoder.end());
  }

  #piecesBefore(text: string): Piece[] {
    const earlier = this.decoder.takePieces();
    return text === "" ? [...earlier] : [...earlier, { kind: "text", text }];
  }

  #limitHeld(): void {
    const { heldLength } = this.#splitter;
    if (heldLength > EVENT_BYTES) throw new ProviderError("reply too large");
    this.#deps.reserve(heldLength + this.decoder.heldLength);
  }

  /** The length of a prompt may become known after the first byte. */
  #failureOf(error: ProviderError): ProviderError {
    if (error.kind !== "rejected the request" || !isPromptTooLong(errorIn(this.#withheld)))
      return error;
    return new ProviderError(error.kind, { isPromptTooLong: true });
  }
}

/**
 * Checks that what is passed on is an event: clients would not see anything else.
 * @throws ProviderError
 */
function assertEvent(text: string): void {
  const line = text.trimStart();
  if (line !== "" && !SSE_LINE.test(line.replace(/^\ufeff/, "")))
    throw new ProviderError("unreadable reply");
}

/** Whether a text with one JSON document consists of an object alone. */
function isObjectText(text: string): boolean {
  const trimmed = text.trim();
  return trimmed.startsWith("{") && trimmed.endsWith("}");
}

/** The error in the data of an event, if it has any. */
function errorIn(event: string): unknown {
  const data = /^data: ?(.*)$/m.exec(event)?.[1] ?? event;
  try {
    const { error, response, ...others } = JSON.parse(data);
    return error ?? response?.error ?? others;
  } catch {
    return undefined;
  }
}
