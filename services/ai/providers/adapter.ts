import type { Readable } from "node:stream";
import type { Take } from "../../flow.ts";
import { ReplyDecoder, type ResponseParser } from "./decode.ts";
import { ProviderError, toUpstreamError, UpstreamError } from "./errors.ts";
import type { UpstreamResponse } from "./http-client.ts";
import type { CallTimings, Completion, Prompt, Provider, ProviderBounds, Usage } from "./provider.ts";
import { listen } from "./read-events.ts";
import { type OpenReply, readReply, sendWithRetry } from "./send.ts";
import { UpstreamRequest } from "./upstream-request.ts";

/** A dialect at one endpoint: how a prompt is sent, and what the answers say. */
export type Adapter = ResponseParser & {
  /** Sends the request once and resolves when the status line has arrived, whatever it says. */
  send(prompt: Prompt, stream: boolean, signal: AbortSignal): Promise<UpstreamResponse>;
};

/** How long a reply that is known to be over may take to end, so that its connection can be used again. */
const DRAIN_MS = 100;

/**
 * Makes a provider of an adapter: attempts, alarms, sizes, finish marker and cleaning up are the same for all.
 * @param id the public id, which failures name
 */
export function asProvider(id: string, adapter: Adapter, limits: ProviderBounds): Provider {
  const reasonOf = (thrown: unknown, { cause, isAborted }: UpstreamRequest) =>
    isAborted ? cause : new ProviderError(id, toUpstreamError(cause ?? thrown, "broke off"));

  async function complete(prompt: Prompt, client: AbortSignal, timings?: CallTimings): Promise<Completion> {
    const exchange = new UpstreamRequest(client, limits.totalMs, timings);
    try {
      const opened = await sendWithRetry((signal) => adapter.send(prompt, false, signal), exchange, limits);
      const completion = await readReply(opened, adapter, exchange, limits);
      exchange.finish();
      return completion;
    } catch (thrown) {
      const reason = reasonOf(thrown, exchange);
      exchange.close();
      throw reason;
    }
  }

  async function stream(
    prompt: Prompt,
    take: Take<string>,
    client: AbortSignal,
    timings?: CallTimings,
  ): Promise<Usage | undefined> {
    const exchange = new UpstreamRequest(client, limits.totalMs, timings);
    const transcript = new ReplyDecoder(adapter, limits.eventBytes);
    let body: Readable | undefined;
    try {
      const opened = await sendWithRetry((signal) => adapter.send(prompt, true, signal), exchange, limits);
      if (opened.type.endsWith("json")) return await takeWhole(opened, exchange, take);
      if (opened.type !== "" && opened.type !== "text/event-stream") throw new UpstreamError("unreadable reply");
      body = opened.body;
      await listen(body, transcript, { exchange, limits, take });
      return transcript.usage;
    } catch (thrown) {
      throw reasonOf(thrown, exchange);
    } finally {
      if (body && transcript.isClosed && !exchange.signal.aborted) {
        exchange.finish();
        drain(body);
      } else exchange.close();
    }
  }

  /** A whole reply where a stream was asked for: some servers do, and errors come so, even with status 200. */
  async function takeWhole(
    opened: OpenReply,
    exchange: UpstreamRequest,
    take: Take<string>,
  ): Promise<Usage | undefined> {
    const { content, usage } = await readReply(opened, adapter, exchange, limits);
    try {
      if (content !== "") await take(content);
    } catch (reason) {
      exchange.abort(reason);
    }
    if (exchange.isAborted) throw exchange.cause;
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
