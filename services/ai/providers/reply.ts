import type { Readable } from "node:stream";
import { urlToHttpOptions } from "node:url";
import { type Adapter, fitPrompt } from "./adapter.ts";
import { ReplyDecoder } from "./decode.ts";
import { ProviderError, toProviderError } from "./errors.ts";
import { decompressed, type Endpoint, readAll } from "./http-client.ts";
import type { Provider, ProviderBounds } from "./provider.ts";
import { UpstreamRequest } from "./send.ts";

/**
 * How long the body of a complete reply may take to end, so that its connection can be used again.
 * Milliseconds.
 */
const DRAIN_MS = 100;
/** Largest reply that comes as one document. Bytes. */
const DOCUMENT_BYTES = 16 * 1024 * 1024;

/**
 * Makes a provider that speaks a dialect at an endpoint. Attempts, timeouts, sizes, finish marker
 * and clean-up are the same for all dialects, and for replies that are streamed or not.
 */
export function createProvider(
  adapter: Adapter,
  { baseUrl, key, http }: Endpoint,
  bounds: ProviderBounds,
): Provider {
  const { protocol, hostname, port, path } = urlToHttpOptions(new URL(baseUrl)); // once, not for every request
  const base = path?.replace(/\/$/, "");
  return async function* reply(prompt, client, report) {
    const request = new UpstreamRequest(client, bounds);
    const decoder = new ReplyDecoder(adapter);
    const fitted = fitPrompt(prompt);
    let body: Readable | undefined;
    try {
      const target = { protocol, hostname, port, path: `${base}/${adapter.path(fitted)}` };
      const post = () =>
        http.post(target, adapter.headers(key, fitted), adapter.body(fitted), request.signal);
      const message = await request.send(post, prompt.isStream, report);
      const content = decompressed(message);
      body = content;
      // Some servers answer a request for a stream by one document. Errors come so too, even with
      // status 200.
      const type =
        message.headers["content-type"] ||
        (prompt.isStream ? "text/event-stream" : "application/json");
      const isDocument = /^[^;]*json *(;|$)/i.test(type);
      if (!isDocument && !/^text\/event-stream *(;|$)/i.test(type))
        throw new ProviderError("unreadable reply");
      const read = isDocument ? () => readAll(content, DOCUMENT_BYTES) : readerOf(content);
      let received = 0;
      if (prompt.isStream) request.resetIdleTimer(bounds.idleMs);
      try {
        for (let bytes = await read(); bytes !== undefined; bytes = await read()) {
          received += bytes.length;
          if (received > bounds.streamBytes) throw new ProviderError("reply too large");
          const startedAt = performance.now();
          const text = isDocument ? decoder.readDocument(bytes) : decoder.push(bytes);
          report.decodingMs += performance.now() - startedAt;
          if (text !== "") {
            request.pauseIdleTimer();
            yield text;
          }
          if (decoder.isClosed) break;
          if (decoder.hadContent)
            request.resetIdleTimer(decoder.isComplete ? bounds.afterOutcomeMs : bounds.idleMs);
        }
        const rest = decoder.end();
        if (rest !== "") yield rest;
      } catch (thrown) {
        // After the finish marker any end counts as the end: a reset, silence, half a closing
        // frame.
        if (!decoder.error && !decoder.isComplete) throw thrown;
      }
      client.throwIfAborted(); // even if the reply is complete: its text may not have been read
      report.usage = decoder.usage;
      report.finishReason = decoder.finishReason;
      if (decoder.error) throw decoder.error;
    } catch (thrown) {
      // The client's own reason if the client has gone; otherwise the timeout or the failure.
      throw client.aborted
        ? client.reason
        : toProviderError(request.signal.reason ?? thrown, "broke off");
    } finally {
      const isDone = decoder.isClosed && !request.signal.aborted;
      request.end(isDone);
      if (isDone && body) drain(body);
    }
  };
}

/**
 * Lets the body end so that its connection returns to the pool. A body that does not end is
 * destroyed.
 */
function drain(body: Readable): void {
  if (body.readableEnded) return;
  setTimeout(() => body.destroy(), DRAIN_MS).unref();
  body.removeAllListeners("data").resume();
}

/**
 * Makes a function that resolves with the bytes that have arrived since its last call, or with
 * undefined at the end. A body whose bytes wait is paused at its high-water mark, so a slow reader
 * slows the provider.
 *
 * `body.iterator({ destroyOnReturn: false })` does the same with one async generator more per
 * piece. The body is left open, so that its connection can be used again.
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
