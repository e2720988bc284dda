import type { ServerResponse } from "node:http";
import { Code, ConnectError } from "@connectrpc/connect";
import { shuttingDown } from "../../services/platform/errors.ts";

/** The calls that are under way, so that a shutdown can end them. */
export type OpenCalls = Set<AbortController>;

/** A call that is aborted as soon as its client goes away. */
export type Call = {
  signal: AbortSignal;
  /** What to report in place of what the call threw, where a shutdown or a broken connection ended it. */
  reasonFor(thrown: unknown): unknown;
  /** Ends the call, wherever it stands. */
  stop(): void;
  /** Forgets the call, once it is answered. */
  end(): unknown;
};

const SHUTTING_DOWN = shuttingDown();
const LOST = new ConnectError("the services have gone", Code.Unavailable);
const STOPPED = new Error("the call was given up");

/**
 * Opens a call on behalf of a client; to be done before anything is waited for, since the client may leave at any time.
 */
export function openCall(raw: ServerResponse, calls: OpenCalls): Call {
  const controller = new AbortController();
  const end = () => calls.delete(controller);
  const leave = () => end() && controller.abort(); // every answer closes at last, most of them after their call
  calls.add(controller);
  raw.on("close", () => leave());
  if (raw.destroyed) leave();
  return {
    signal: controller.signal,
    reasonFor(thrown) {
      if (controller.signal.reason === SHUTTING_DOWN) return SHUTTING_DOWN;
      return isUnexplained(thrown) && !controller.signal.aborted ? LOST : thrown;
    },
    stop: () => controller.abort(STOPPED),
    end,
  };
}

/**
 * A cancellation without a reason, a reset, a stream that HTTP/2 has broken off, or no connection at all, for want of a
 * descriptor as well: not an answer of the services.
 */
function isUnexplained(thrown: unknown): boolean {
  if (!(thrown instanceof ConnectError) || thrown.details.length > 0) return false;
  if (thrown.code === Code.Canceled) return true;
  if (!(thrown.cause instanceof Error)) return false;
  const { code = "", syscall } = thrown.cause as NodeJS.ErrnoException;
  return thrown.code === Code.Aborted || code.startsWith("ERR_HTTP2_") || syscall === "connect";
}

/** Ends every call that is under way: 503, or an error event and `[DONE]` where a stream has started. */
export function endCalls(calls: OpenCalls): void {
  for (const call of calls) call.abort(SHUTTING_DOWN);
}
