import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import { constants } from "node:http2";
import { Code, ConnectError } from "@connectrpc/connect";

/** How long clients are waited for, in ms. */
export type Patience = {
  /** Until a request has arrived. */
  requestMs: number;
  /** While a reader takes nothing of an answer. */
  readerMs: number;
  /** While nothing is heard on a connection; calls that are open on it go on. */
  idleMs: number;
};

/** As long as the gateway waits for its clients; connections last longer, since pools of clients keep them. */
export const PATIENCE: Patience = { requestMs: 30_000, readerMs: 120_000, idleMs: 600_000 };

const LATE = new ConnectError("late", Code.DeadlineExceeded);
const TOO_LARGE = new ConnectError("too large", Code.ResourceExhausted);

/**
 * Reads a body to its end, however small its parts, and keeps `most` bytes at most. What were left unread would stay
 * with the client and clog its connection: Node's clients never forget what they could not send.
 * @throws ConnectError if it has not ended in time, or is larger
 */
export async function readWhole(body: AsyncIterable<Uint8Array>, most: number, withinMs: number): Promise<Uint8Array> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(reject, withinMs, LATE);
  });
  return Promise.race([gather(body, most), late]).finally(() => clearTimeout(timer));
}

async function gather(body: AsyncIterable<Uint8Array>, most: number): Promise<Uint8Array> {
  let held = Buffer.alloc(0);
  let bytes = 0;
  for await (const part of body) {
    const start = bytes;
    bytes += part.length;
    if (bytes > most) continue;
    if (bytes > held.length) held = Buffer.concat([held], Math.max(bytes, 2 * held.length));
    held.set(part, start);
  }
  if (bytes > most) throw TOO_LARGE;
  return held.subarray(0, bytes);
}

/** Ends a stream whose reader takes nothing any more, and one that has its answer and is still being sent to. */
export function endStalled(req: Http2ServerRequest, { stream }: Http2ServerResponse, readerMs: number): void {
  stream.setTimeout(readerMs, () => {
    if (stream.writableLength > 0) stream.close(constants.NGHTTP2_CANCEL);
  });
  stream.on("wantTrailers", () => {
    if (!req.complete) setImmediate(() => stream.close(constants.NGHTTP2_NO_ERROR)); // RFC 9113 section 8.1
  });
}
