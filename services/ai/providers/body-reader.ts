import type { Readable } from "node:stream";

/**
 * How long the body of a complete reply may take to end, so that its connection can be used again.
 * Milliseconds.
 */
const DRAIN_MS = 100;

/**
 * Lets the body end so that its connection returns to the pool. A body that does not end is
 * destroyed.
 */
export function drain(body: Readable): void {
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
export function readerOf(body: Readable): () => Promise<Buffer | undefined> {
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
