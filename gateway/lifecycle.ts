import type { ServerResponse } from "node:http";
import { Code, ConnectError } from "@connectrpc/connect";
import type { FastifyInstance } from "fastify";
import { shuttingDown } from "../services/platform/errors.ts";

/** The state of a gateway. */
export type Phase = "starting" | "serving" | "draining";

/** Start and shutdown of a gateway, and its open requests. */
export type Lifecycle = {
  phase(): Phase;
  /** Counts a request as open. */
  enter(raw: ServerResponse): void;
  /** Called when a response has ended or its client has disconnected. Aborts the call of the request. */
  leave(raw: ServerResponse): void;
  /** Opens the call of a request. Call it before the first `await`, since the client may disconnect at any time. */
  openCall(raw: ServerResponse): InflightCall;
  /** Opens the port. @returns the URL for clients, such as http://127.0.0.1:3000 */
  listen(address: { host: string; port: number }): Promise<string>;
  /** Rejects new requests, aborts open ones after the grace period, and closes the port. May be called twice. */
  drain(): Promise<void>;
};

/** A call. It is aborted when its client disconnects, or by a shutdown. */
export type InflightCall = {
  signal: AbortSignal;
  /** The error to report: another one than the thrown if a shutdown or a broken connection ended the call. */
  reasonFor(thrown: unknown): unknown;
  /** Aborts the call. */
  stop(): void;
  /** Removes the call from the open ones after its response. */
  end(): void;
};

/** Time for aborted calls to send their last response, in ms. */
const FAREWELL_MS = 1_000;

const SHUTTING_DOWN = shuttingDown();
const LOST = new ConnectError("the connection to the services was lost", Code.Unavailable);
const STOPPED = new Error("the call was stopped");

/** @param graceMs grace period for open requests and streams, in ms */
export function createLifecycle(app: Pick<FastifyInstance, "listen" | "close">, graceMs: number): Lifecycle {
  let phase: Phase = "starting";
  let drained: Promise<void> | undefined;
  /** The open requests, with their calls. */
  const open = new Map<ServerResponse, AbortController | undefined>();
  let onIdle = () => {};
  const idleWithin = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
      if (open.size === 0) onIdle();
    });
  const drain = async () => {
    phase = "draining";
    await idleWithin(graceMs);
    // clients get 503, or an error event and `[DONE]` if their stream has started
    for (const call of open.values()) call?.abort(SHUTTING_DOWN);
    await idleWithin(FAREWELL_MS);
    await app.close();
  };
  return {
    phase: () => phase,
    enter(raw) {
      open.set(raw, undefined);
    },
    leave(raw) {
      const call = open.get(raw);
      open.delete(raw);
      call?.abort();
      if (open.size === 0) onIdle();
    },
    openCall(raw) {
      const call = new AbortController();
      if (open.has(raw)) open.set(raw, call);
      else call.abort(); // the client has disconnected
      return {
        signal: call.signal,
        reasonFor(thrown) {
          if (call.signal.reason === SHUTTING_DOWN) return SHUTTING_DOWN;
          return isUnexplained(thrown) && !call.signal.aborted ? LOST : thrown;
        },
        stop: () => call.abort(STOPPED),
        end: () => void (open.has(raw) && open.set(raw, undefined)),
      };
    },
    async listen(address) {
      const url = await app.listen(address);
      phase = "serving";
      return url;
    },
    drain() {
      drained ??= drain();
      return drained;
    },
  };
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
