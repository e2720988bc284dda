import type { Readable } from "node:stream";
import { ReplyDecoder, type ResponseParser } from "./decode.ts";
import { ProviderError, toUpstreamError, UpstreamError } from "./errors.ts";
import type { UpstreamResponse } from "./http-client.ts";
import type { CallObserver, Completion, Prompt, Provider, ProviderBounds } from "./provider.ts";
import { readerOf } from "./read-bytes.ts";
import { readReply, sendWithRetry } from "./send.ts";
import { UpstreamRequest } from "./upstream-request.ts";

/** A dialect at one endpoint: how a prompt is sent, and how responses are parsed. */
export type Adapter = ResponseParser & {
  /** Sends the request once. Resolves when the status line has arrived, whatever the status. */
  send(prompt: Prompt, stream: boolean, signal: AbortSignal): Promise<UpstreamResponse>;
};

/** How long the body of a complete reply may take to end, so that its connection can be used again. Milliseconds. */
const DRAIN_MS = 100;

/**
 * Makes a provider of an adapter. Attempts, timeouts, sizes, finish marker and clean-up are the same for all dialects.
 * @param id the public id, used in error messages
 */
export function createProvider(id: string, adapter: Adapter, bounds: ProviderBounds): Provider {
  /** The client's own reason if the client has gone; otherwise the timeout or the failure, as an error of this provider. */
  const errorOf = (thrown: unknown, { signal }: UpstreamRequest, client: AbortSignal) =>
    client.aborted ? client.reason : new ProviderError(id, toUpstreamError(signal.reason ?? thrown, "broke off"));

  async function complete(prompt: Prompt, client: AbortSignal, observer?: CallObserver): Promise<Completion> {
    const request = new UpstreamRequest(client, bounds.totalMs);
    try {
      const send = () => adapter.send(prompt, false, request.signal);
      // The first-byte limit is for streams: a model may write for minutes before a complete reply begins.
      const reply = await sendWithRetry(send, request, bounds, observer, bounds.totalMs);
      const completion = await readReply(reply, adapter, bounds, observer);
      request.finish();
      return completion;
    } catch (thrown) {
      const error = errorOf(thrown, request, client);
      request.close();
      throw error;
    }
  }

  async function* stream(prompt: Prompt, client: AbortSignal, observer?: CallObserver): AsyncGenerator<string, void> {
    const { totalMs, idleMs, afterFinishMs, eventBytes, streamBytes } = bounds;
    const request = new UpstreamRequest(client, totalMs);
    const decoder = new ReplyDecoder(adapter, eventBytes);
    let body: Readable | undefined;
    let received = 0;
    try {
      const reply = await sendWithRetry(() => adapter.send(prompt, true, request.signal), request, bounds, observer);
      if (reply.type.endsWith("json")) {
        // Some servers answer a request for a stream by one document. Errors come so too, even with status 200.
        const { content, usage } = await readReply(reply, adapter, bounds, observer);
        if (content !== "") yield content;
        if (usage) observer?.onUsage(usage);
      } else {
        if (reply.type !== "" && reply.type !== "text/event-stream") throw new UpstreamError("unreadable reply");
        body = reply.body;
        request.resetIdleTimer(idleMs);
        try {
          const next = readerOf(body);
          for (let bytes = await next(); bytes !== undefined; bytes = await next()) {
            received += bytes.length;
            if (received > streamBytes) throw new UpstreamError("reply too large");
            const startedAt = performance.now();
            const text = decoder.push(bytes);
            observer?.onDecoded(performance.now() - startedAt);
            if (text !== "") {
              request.pauseIdleTimer();
              yield text;
            }
            if (decoder.isClosed) break;
            if (decoder.hadContent) request.resetIdleTimer(decoder.isComplete ? afterFinishMs : idleMs);
          }
          const rest = decoder.end();
          if (rest !== "") yield rest;
        } catch (thrown) {
          // After the finish marker any end counts as the end: a reset, silence, half a closing frame.
          if (!decoder.error && !decoder.isComplete) throw thrown;
        }
        if (decoder.error) throw decoder.error;
        if (decoder.usage) observer?.onUsage(decoder.usage);
      }
      client.throwIfAborted(); // even if the reply is complete: its text may not have been read
    } catch (thrown) {
      throw errorOf(thrown, request, client);
    } finally {
      if (body && decoder.isClosed && !request.signal.aborted) {
        request.finish();
        drain(body);
      } else request.close();
    }
  }

  return { complete, stream };
}

/** Lets the body end so that its connection returns to the pool. A body that does not end is destroyed. */
function drain(body: Readable): void {
  if (body.readableEnded) return;
  const giveUp = setTimeout(() => body.destroy(), DRAIN_MS).unref();
  body.once("close", () => clearTimeout(giveUp));
  body.removeAllListeners("readable").resume(); // with such a listener it would not flow
}
