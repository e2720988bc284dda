import type { Readable } from "node:stream";

/**
 * Makes a function that resolves with the bytes that have arrived since its last call, or with undefined at the end. Until
 * it is called again the body fills its buffer and then stops reading, so a slow reader slows the provider.
 *
 * `body.iterator({ destroyOnReturn: false })` does the same with one async generator more per piece. The body is left open,
 * so that its connection can be used again.
 */
export function readerOf(body: Readable): () => Promise<Buffer | undefined> {
  let end: { error?: unknown } | undefined;
  let wake = () => {};
  const onEnd = (error?: unknown) => {
    end ??= { error };
    wake();
  };
  body
    .on("readable", () => wake())
    .once("end", () => onEnd())
    .once("error", onEnd)
    .once("close", () => onEnd(new Error("The body was closed early.")));
  return async () => {
    for (;;) {
      const bytes: Buffer | null = body.read();
      if (bytes) return bytes;
      if (end?.error) throw end.error;
      if (end) return undefined;
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  };
}
