import type { Readable } from "node:stream";
import type { Take } from "../../flow.ts";
import { type Mapping, Transcript } from "./decode.ts";
import { Fault, faultOf, ProviderFailure } from "./errors.ts";
import type { Answer } from "./http-client.ts";
import type { Completion, Limits, Prompt, Provider, Stopwatch, Usage } from "./provider.ts";
import { listen } from "./read-events.ts";
import { type Opened, open, whole } from "./send.ts";
import { Exchange } from "./upstream-request.ts";

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
  const reasonOf = (thrown: unknown, { cause, isDeserted }: Exchange) =>
    isDeserted ? cause : new ProviderFailure(id, faultOf(cause ?? thrown, "broke off"));

  async function complete(prompt: Prompt, client: AbortSignal, stopwatch?: Stopwatch): Promise<Completion> {
    const exchange = new Exchange(client, limits.totalMs, stopwatch);
    try {
      const opened = await open((signal) => adapter.send(prompt, false, signal), exchange, limits);
      const completion = await whole(opened, adapter, exchange, limits);
      exchange.settle();
      return completion;
    } catch (thrown) {
      const reason = reasonOf(thrown, exchange);
      exchange.abandon();
      throw reason;
    }
  }

  async function stream(
    prompt: Prompt,
    take: Take<string>,
    client: AbortSignal,
    stopwatch?: Stopwatch,
  ): Promise<Usage | undefined> {
    const exchange = new Exchange(client, limits.totalMs, stopwatch);
    const transcript = new Transcript(adapter, limits.eventBytes);
    let body: Readable | undefined;
    try {
      const opened = await open((signal) => adapter.send(prompt, true, signal), exchange, limits);
      if (opened.type.endsWith("json")) return await takeWhole(opened, exchange, take);
      if (opened.type !== "" && opened.type !== "text/event-stream") throw new Fault("unreadable reply");
      body = opened.body;
      await listen(body, transcript, { exchange, limits, take });
      return transcript.usage;
    } catch (thrown) {
      throw reasonOf(thrown, exchange);
    } finally {
      if (body && transcript.over && !exchange.signal.aborted) {
        exchange.settle();
        drain(body);
      } else exchange.abandon();
    }
  }

  /** A whole reply where a stream was asked for: some servers do, and errors come so, even with status 200. */
  async function takeWhole(opened: Opened, exchange: Exchange, take: Take<string>): Promise<Usage | undefined> {
    const { content, usage } = await whole(opened, adapter, exchange, limits);
    try {
      if (content !== "") await take(content);
    } catch (reason) {
      exchange.desert(reason);
    }
    if (exchange.isDeserted) throw exchange.cause;
    return usage;
  }

  return { complete, stream };
}

/** Lets the body end so that its connection returns to the pool; one that doesn't end is closed. */
function drain(body: Readable): void {
  if (body.readableEnded) return;
  const giveUp = setTimeout(() => body.destroy(), DRAIN_MS).unref();
  body.once("close", () => clearTimeout(giveUp)).resume();
}
