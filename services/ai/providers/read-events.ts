import type { Readable } from "node:stream";
import type { ReplyDecoder } from "./decode.ts";
import { UpstreamError } from "./errors.ts";
import type { CallObserver, ProviderBounds } from "./provider.ts";
import type { UpstreamRequest } from "./upstream-request.ts";

/**
 * Reads a reply that comes as server-sent events. Text that has arrived since the last pull is one piece. Nothing is
 * received while the consumer is busy, so a slow reader slows the provider.
 * After the finish marker any end counts as the end: a reset, silence, half a closing frame.
 * @throws UpstreamError after the text before it
 */
export async function* readEvents(
  body: Readable,
  decoder: ReplyDecoder,
  request: UpstreamRequest,
  { idleMs, afterFinishMs, streamBytes }: ProviderBounds,
  observer?: CallObserver,
): AsyncGenerator<string, void> {
  let received = 0;
  request.resetIdleTimer(idleMs);
  try {
    // The body is not destroyed at the end, so that its connection can be used again.
    for await (const bytes of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
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
    if (!decoder.error && !decoder.isComplete) throw thrown;
  }
  if (decoder.error) throw decoder.error;
}
