import type { ServerResponse } from "node:http";
import { Code, ConnectError } from "@connectrpc/connect";
import { shuttingDown } from "../../services/platform/errors.ts";

/** The calls in progress by their responses. A shutdown aborts them. */
export type OpenCalls = Map<ServerResponse, AbortController>;

/** A call. It is aborted when its client disconnects, by `abortCall`. */
export type InflightCall = {
  signal: AbortSignal;
  /** The error to report: another one than the thrown if a shutdown or a broken connection ended the call. */
  reasonFor(thrown: unknown): unknown;
  /** Aborts the call. */
  stop(): void;
  /** Removes the call from the open ones after its response. */
  end(): unknown;
};

const SHUTTING_DOWN = shuttingDown();
const LOST = new ConnectError("the connection to the services was lost", Code.Unavailable);
const STOPPED = new Error("the call was stopped");

/**
 * Opens a call for a client. Call it before the first `await`, since the client may disconnect at any time.
 */
export function openCall(raw: ServerResponse, calls: OpenCalls): InflightCall {
  const controller = new AbortController();
  calls.set(raw, controller);
  if (raw.destroyed) abortCall(calls, raw);
  return {
    signal: controller.signal,
    reasonFor(thrown) {
      if (controller.signal.reason === SHUTTING_DOWN) return SHUTTING_DOWN;
      return isUnexplained(thrown) && !controller.signal.aborted ? LOST : thrown;
    },
    stop: () => controller.abort(STOPPED),
    end: () => calls.delete(raw),
  };
}

/** Aborts the call of a response whose client has disconnected. */
export function abortCall(calls: OpenCalls, raw: ServerResponse): void {
  const call = calls.get(raw);
  calls.delete(raw);
  call?.abort();
}

/**
 * Whether an error comes from the connection and not from the services: a cancellation without a reason, a reset, an
 * HTTP/2 error, or a failed connect (also for lack of file descriptors).
 */
function isUnexplained(thrown: unknown): boolean {
  if (!(thrown instanceof ConnectError) || thrown.details.length > 0) return false;
  if (thrown.code === Code.Canceled) return true;
  if (!(thrown.cause instanceof Error)) return false;
  const { code = "", syscall } = thrown.cause as NodeJS.ErrnoException;
  return thrown.code === Code.Aborted || code.startsWith("ERR_HTTP2_") || syscall === "connect";
}

/** Aborts every call: clients get 503, or an error event and `[DONE]` if their stream has started. */
export function endCalls(calls: OpenCalls): void {
  for (const call of calls.values()) call.abort(SHUTTING_DOWN);
}
