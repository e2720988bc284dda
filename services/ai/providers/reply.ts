import type { Readable } from "node:stream";
import type { Exchange } from "./exchange.ts";
import { Fault } from "./failure.ts";
import { type Heard, listen } from "./listen.ts";
import type { Limits, Reply, Usage } from "./provider.ts";
import { type Opened, open, type Send, whole } from "./reader.ts";
import { type Mapping, Transcript } from "./transcript.ts";

/** What a streamed reply is made of. */
type Sources = {
  send: Send;
  mapping: Mapping;
  limits: Limits;
  /** Begins to count the time. */
  start(): Exchange;
  /** What the reader is told of whatever was thrown. */
  reasonFor(thrown: unknown, exchange: Exchange): unknown;
};

/** How long a reply that is known to be over may take to end, so that its connection can be used again. */
const DRAIN_MS = 100;

/** A reply as it comes; nothing is sent before it is asked for. By hand, since a generator would cost every text three more turns. */
export class StreamedReply implements Reply, AsyncIterator<string, undefined> {
  usage: Usage | undefined;
  readonly #sources: Sources;
  readonly #transcript: Transcript;
  #exchange: Exchange | undefined;
  #body: Readable | undefined;
  #heard: Heard | undefined;

  constructor(sources: Sources) {
    this.#sources = sources;
    this.#transcript = new Transcript(sources.mapping, sources.limits.eventBytes);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<string, undefined>> {
    this.#exchange ??= this.#sources.start();
    const arrival = this.#heard ? this.#heard.arrival() : this.#begin(this.#exchange);
    return arrival.then(this.#hand, this.#fail);
  }

  async return(): Promise<IteratorReturnResult<undefined>> {
    this.#close();
    return { done: true, value: undefined };
  }

  async #begin(exchange: Exchange): Promise<void> {
    this.#heard = await this.#open(exchange);
    await this.#heard.arrival();
  }

  readonly #hand = (): IteratorResult<string, undefined> | Promise<IteratorReturnResult<undefined>> => {
    try {
      const value = this.#heard?.take();
      if (value) return { done: false, value };
    } catch (thrown) {
      return this.#fail(thrown);
    }
    this.usage ??= this.#transcript.usage;
    return this.return();
  };

  readonly #fail = (thrown: unknown): never => {
    const reason = this.#sources.reasonFor(thrown, this.#exchange as Exchange);
    this.#close();
    throw reason;
  };

  async #open(exchange: Exchange): Promise<Heard> {
    const { send, limits } = this.#sources;
    const opened = await open(send, exchange, limits);
    if (opened.type.endsWith("json")) return this.#takeWhole(opened, exchange);
    if (opened.type !== "" && opened.type !== "text/event-stream") throw new Fault("unreadable reply");
    this.#body = opened.body;
    return listen(opened.body, this.#transcript, exchange, limits);
  }

  /** A whole reply where a stream was asked for: some servers do, and errors come so, even with status 200. */
  async #takeWhole(opened: Opened, exchange: Exchange): Promise<Heard> {
    const { content, usage } = await whole(opened, this.#sources.mapping, exchange, this.#sources.limits);
    this.usage = usage;
    const texts = [content];
    return { arrival: async () => {}, take: () => texts.shift() ?? "" };
  }

  /** Frees the connection: for others if the reply is over, by closing it else. */
  #close(): void {
    if (!this.#exchange) return;
    if (this.#body && this.#transcript.over && !this.#exchange.signal.aborted) {
      this.#exchange.settle();
      drain(this.#body);
    } else {
      this.#exchange.abandon();
    }
  }
}

/** Lets the body end so that its connection returns to the pool; one that doesn't end is closed. */
function drain(body: Readable): void {
  if (body.readableEnded) return;
  const giveUp = setTimeout(() => body.destroy(), DRAIN_MS).unref();
  body.once("close", () => clearTimeout(giveUp)).resume();
}
