import type { Readable } from "node:stream";

/**
 * Time in which the body of a complete reply must end for its connection to be reused, in
 * milliseconds.
 */
const DRAIN_MS = 100;

/** Reads a body to its end so that its connection returns to the pool, or destroys it. */
export function drain(body: Readable): void {
  if (body.readableEnded) return;
  setTimeout(() => body.destroy(), DRAIN_MS).unref();
  body.removeAllListeners("data").resume();
}

/**
 * Creates a function that resolves with the bytes that have arrived since its last call, or with
 * undefined at the end. The body is paused at its high-water mark, so a slow reader slows the
 * provider down. It is left open, so that its connection can be reused.
 *
 * `body.iterator({ destroyOnReturn: false })` does the same, but adds an async generator to the
 * path of every chunk.
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
    .once("close", () => end ?? onEnd(new Error("The body was closed early."))); // its stack takes 20 µs
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
