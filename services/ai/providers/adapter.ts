import type { Readable } from "node:stream";
import { parseDocument, ReplyDecoder, type ResponseParser, toUsage } from "./decode.ts";
import { ProviderError, toProviderError } from "./errors.ts";
import { type OpenReply, readAll, type UpstreamResponse } from "./http-client.ts";
import type { CallObserver, Completion, Prompt, Provider, ProviderBounds } from "./provider.ts";
import { sendWithRetry, UpstreamRequest } from "./send.ts";

/** A dialect at one endpoint: how a prompt is sent, and how responses are parsed. */
export type Adapter = ResponseParser & {
  /** Sends the request once. Resolves when the status line has arrived, whatever the status. */
  send(prompt: Prompt, stream: boolean, signal: AbortSignal): Promise<UpstreamResponse>;
};

/** How long the body of a complete reply may take to end, so that its connection can be used again. Milliseconds. */
const DRAIN_MS = 100;

/**
 * Makes a provider of an adapter. Attempts, timeouts, sizes, finish marker and clean-up are the same for all dialects.
 */
export function createProvider(adapter: Adapter, bounds: ProviderBounds): Provider {
  /** The client's own reason if the client has gone; otherwise the timeout or the failure, as a ProviderError. */
  const errorOf = (thrown: unknown, { signal }: UpstreamRequest, client: AbortSignal) =>
    client.aborted ? client.reason : toProviderError(signal.reason ?? thrown, "broke off");

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
    const { totalMs, idleMs, afterOutcomeMs, eventBytes, streamBytes } = bounds;
    const request = new UpstreamRequest(client, totalMs);
    const decoder = new ReplyDecoder(adapter, eventBytes);
    let body: Readable | undefined;
    let received = 0;
    try {
      const reply = await sendWithRetry(() => adapter.send(prompt, true, request.signal), request, bounds, observer);
      request.resetIdleTimer(idleMs);
      if (reply.type.endsWith("json")) {
        // Some servers answer a request for a stream by one document. Errors come so too, even with status 200.
        const { content, usage } = await readReply(reply, adapter, bounds, observer);
        if (content !== "") yield content;
        if (usage) observer?.onUsage(usage);
      } else {
        if (reply.type !== "" && reply.type !== "text/event-stream") throw new ProviderError("unreadable reply");
        body = reply.body;
        try {
          const next = readerOf(body);
          for (let bytes = await next(); bytes !== undefined; bytes = await next()) {
            received += bytes.length;
            if (received > streamBytes) throw new ProviderError("reply too large");
            const startedAt = performance.now();
            const text = decoder.push(bytes);
            observer?.onDecoded(performance.now() - startedAt);
            if (text !== "") {
              request.pauseIdleTimer();
              yield text;
            }
            if (decoder.isClosed) break;
            if (decoder.hadContent) request.resetIdleTimer(decoder.isComplete ? afterOutcomeMs : idleMs);
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
  body.removeAllListeners("data").resume();
}

/**
 * Reads a reply that comes as one JSON document.
 * @throws ProviderError
 */
async function readReply(
  { body, type }: OpenReply,
  { parseBody }: ResponseParser,
  { chatBytes }: ProviderBounds,
  observer?: CallObserver,
): Promise<Completion> {
  if (type !== "" && !type.endsWith("json")) throw new ProviderError("unreadable reply");
  const bytes = await readAll(body, chatBytes);
  const startedAt = performance.now();
  const { text = "", usage, finished, failed, callsTool } = parseDocument(textOf(bytes), parseBody);
  observer?.onDecoded(performance.now() - startedAt);
  if (failed) throw new ProviderError(failed, { usage: toUsage(usage) });
  if (!finished) throw new ProviderError("broke off");
  if (callsTool && text === "") throw new ProviderError("unreadable reply", { usage: toUsage(usage) });
  return { content: text.toWellFormed(), finishReason: finished, usage: toUsage(usage) };
}

/** The text of a document. "" if it is not UTF-8, which is unreadable too. */
function textOf(bytes: Buffer): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return "";
  }
}

/**
 * Makes a function that resolves with the bytes that have arrived since its last call, or with undefined at the end. A body
 * whose bytes wait is paused at its high-water mark, so a slow reader slows the provider.
 *
 * `body.iterator({ destroyOnReturn: false })` does the same with one async generator more per piece. The body is left open,
 * so that its connection can be used again.
 */
function readerOf(body: Readable): () => Promise<Buffer | undefined> {
  let chunks: Buffer[] = [];
  let size = 0;
  let end: { error?: unknown } | undefined;
  let wake = () => {};
  const onEnd = (error?: unknown) => {
    end ??= { error };
    wake();
  };
  body
    .on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      if (size >= body.readableHighWaterMark) body.pause();
      wake();
    })
    .once("end", () => onEnd())
    .once("error", onEnd)
    .once("close", () => onEnd(new Error("The body was closed early.")));
  return async () => {
    while (chunks.length === 0) {
      if (end?.error) throw end.error;
      if (end) return undefined;
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    const bytes = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
    chunks = [];
    size = 0;
    if (body.isPaused()) body.resume();
    return bytes;
  };
}
