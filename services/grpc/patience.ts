import type { Http2ServerRequest, Http2ServerResponse, ServerHttp2Session, ServerHttp2Stream } from "node:http2";
import { constants } from "node:http2";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Place } from "../process/room.ts";

/** How patient the port is with its clients; times in ms. */
export type Patience = {
  /** Until a request has arrived. */
  requestMs: number;
  /** While a reader takes nothing of an answer. */
  readerMs: number;
  /** While nothing is heard on a connection; calls that are open on it go on. */
  idleMs: number;
};

/** As long as the gateway waits for its clients; connections last longer, since pools of clients keep them. */
export const PATIENCE: Patience = {
  requestMs: 30_000,
  readerMs: 120_000,
  idleMs: 600_000,
};

const GONE = new ConnectError("the reader has gone", Code.Canceled);

/**
 * Stops the timer of what has closed. Node leaves it running where a connection was cut, since what is destroyed takes no
 * more settings, and it holds all that belonged to the connection until it rings.
 */
export function stopTimer(closed: ServerHttp2Session | ServerHttp2Stream): void {
  Object.create(closed, { destroyed: { value: false } }).setTimeout(0);
}

/** Ends a stream whose reader has stopped taking its answer, and one that has its answer while its body is still being sent. */
export function endStalled(req: Http2ServerRequest, { stream }: Http2ServerResponse, readerMs: number): void {
  stream.setTimeout(readerMs, () => {
    if (stream.writableLength > 0) stream.close(constants.NGHTTP2_CANCEL);
  });
  stream.once("close", () => stopTimer(stream));
  stream.on("wantTrailers", () => {
    if (!req.complete) setImmediate(() => stream.close(constants.NGHTTP2_NO_ERROR)); // RFC 9113 section 8.1
  });
}

/** Ends a write that waits for its reader when that one goes: Node 26 leaves it waiting (nodejs/node#58252). */
export function endWaiting(res: Http2ServerResponse): void {
  res.stream.once("close", () => {
    if (res.listenerCount("error") > 0) res.emit("error", GONE);
  });
}

/** Counts what a reader has not taken yet, and ends the stream where there is no room for that. */
export function countUnread(res: Http2ServerResponse, place: Place): void {
  const write = res.write.bind(res) as (...given: unknown[]) => boolean;
  res.write = (...given: unknown[]) => {
    const isTaken = write(...given);
    if (!isTaken && !place.pile(true)) res.stream.close(constants.NGHTTP2_CANCEL);
    return isTaken;
  };
  res.on("drain", () => place.pile(false));
}
