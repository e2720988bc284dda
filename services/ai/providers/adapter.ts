import type { Readable } from "node:stream";
import { Exchange } from "./exchange.ts";
import { Fault, faultOf, ProviderFailure } from "./failure.ts";
import { listen } from "./listen.ts";
import type { Completion, Limits, Piece, Prompt, Provider, Stopwatch } from "./provider.ts";
import { collect, type Opened, open } from "./reader.ts";
import { type Mapping, meaningOf, Transcript, wholeUsage } from "./transcript.ts";
import type { Answer } from "./wire.ts";

/** A dialect at one endpoint: how a prompt is sent, and what the answers say. */
export type Adapter = Mapping & {
  /** Sends the request once and resolves when the status line has arrived, whatever it says. */
  send(prompt: Prompt, stream: boolean, signal: AbortSignal): Promise<Answer>;
};

/** How long a reply that is known to be over may take to end, so that its connection can be used again. */
const DRAIN_MS = 100;

/**
 * Makes a provider of an adapter: attempts, alarms, sizes, finish marker and cleaning up are the same for all.
 * @param id the public id, which failures name
 */
export function asProvider(id: string, adapter: Adapter, limits: Limits): Provider {
  const failure = (thrown: unknown, exchange: Exchange, client: AbortSignal) =>
    client.aborted ? client.reason : new ProviderFailure(id, faultOf(exchange.cause ?? thrown, "broke off"));

  async function complete(prompt: Prompt, client: AbortSignal, stopwatch?: Stopwatch): Promise<Completion> {
    const exchange = new Exchange(client, limits.totalMs, stopwatch);
    try {
      const opened = await open((signal) => adapter.send(prompt, false, signal), exchange, limits);
      const completion = await whole(opened, adapter, exchange, limits);
      exchange.settle();
      return completion;
    } catch (thrown) {
      const reason = failure(thrown, exchange, client);
      exchange.abandon();
      throw reason;
    }
  }

  async function* stream(
    prompt: Prompt,
    client: AbortSignal,
    stopwatch?: Stopwatch,
  ): AsyncGenerator<Piece, void, undefined> {
    const exchange = new Exchange(client, limits.totalMs, stopwatch);
    const transcript = new Transcript(adapter, limits.eventBytes);
    let opened: Opened | undefined;
    try {
      opened = await open((signal) => adapter.send(prompt, true, signal), exchange, limits);
      if (opened.type.endsWith("json")) return yield* atOnce(await whole(opened, adapter, exchange, limits));
      if (opened.type !== "" && opened.type !== "text/event-stream") throw new Fault("unreadable reply");
      const next = listen(opened.body, transcript, exchange, limits);
      for (let text = await next(); text !== ""; text = await next()) yield { text };
      if (transcript.usage) yield { usage: transcript.usage };
    } catch (thrown) {
      throw failure(thrown, exchange, client);
    } finally {
      if (opened && transcript.over && !exchange.signal.aborted) {
        exchange.settle();
        drain(opened.body);
      } else {
        exchange.abandon();
      }
    }
  }

  return { complete, stream };
}

/** Reads a reply that comes as one JSON document. */
async function whole(
  { body, type }: Opened,
  { whole }: Mapping,
  exchange: Exchange,
  limits: Limits,
): Promise<Completion> {
  if (type !== "" && !type.endsWith("json")) throw new Fault("unreadable reply");
  const json = await collect(body, exchange, limits);
  const startedAt = performance.now();
  const { text = "", usage, finished, failed } = meaningOf(json, whole);
  exchange.stopwatch?.worked(performance.now() - startedAt);
  if (failed) throw new Fault(failed);
  if (!finished) throw new Fault("broke off");
  return { content: text.toWellFormed(), usage: wholeUsage(usage) };
}

/** A whole reply where a stream was asked for: some servers do, and errors come so, even with status 200. */
function* atOnce({ content, usage }: Completion): Iterable<Piece> {
  if (content !== "") yield { text: content };
  if (usage) yield { usage };
}

/** Lets the body end so that its connection returns to the pool; one that doesn't end is closed. */
function drain(body: Readable): void {
  if (body.readableEnded) return;
  const giveUp = setTimeout(() => body.destroy(), DRAIN_MS).unref();
  body.once("close", () => clearTimeout(giveUp)).resume();
}
