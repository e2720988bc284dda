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

/** The body of a request; fails when it has not ended in time. */
export async function* inTime(body: AsyncIterable<Uint8Array>, requestMs: number): AsyncIterable<Uint8Array> {
  const end = performance.now() + requestMs;
  const parts = body[Symbol.asyncIterator]();
  for (;;) {
    const leftMs = end - performance.now();
    if (leftMs <= 0) throw LATE;
    let timer: NodeJS.Timeout | undefined;
    const part = await new Promise<IteratorResult<Uint8Array>>((resolve, reject) => {
      timer = setTimeout(reject, leftMs, LATE);
      parts.next().then(resolve, reject);
    }).finally(() => clearTimeout(timer));
    if (part.done) return;
    yield part.value;
  }
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
