import { Code, ConnectError } from "@connectrpc/connect";
import type { Messages, Take } from "./messages.ts";

/** The life of one call in process: until it ends, its client aborts it, or its deadline passes. */
export type InProcessCall = {
  /** The handler's signal; fires when the call is over, however it ended. Made when first asked for: most never ask. */
  signal(): AbortSignal;
  /** When the call times out, in milliseconds of the system clock. */
  deadline: number | undefined;
  isOver(): boolean;
  /**
   * Settles as the work does, or rejects the moment the call is aborted. Unknown errors are masked, as on the wire.
   * @param isLast whether the work's result ends the call; its failure always does
   */
  settle<T>(work: () => Promise<T>, isLast: (result: T) => boolean): Promise<T>;
};

const ENDED = new ConnectError("the call has ended", Code.Canceled);

/** Starts the clock of a call. */
export function startCall(client: AbortSignal | undefined, timeoutMs: number | undefined): InProcessCall {
  let controller: AbortController | undefined;
  let over: ConnectError | undefined;
  let rejectWaiting: ((error: ConnectError) => void) | undefined;
  const end = (reason: ConnectError) => {
    if (over) return;
    over = reason;
    clearTimeout(timer);
    client?.removeEventListener("abort", leave);
    controller?.abort(reason);
  };
  const abort = (error: ConnectError) => {
    rejectWaiting?.(error);
    end(error);
  };
  const leave = () => abort(ConnectError.from(client?.reason, Code.Canceled));
  const expire = () => abort(new ConnectError("the operation timed out", Code.DeadlineExceeded));
  const timer = timeoutMs === undefined ? undefined : setTimeout(expire, timeoutMs);
  if (client?.aborted) leave();
  else client?.addEventListener("abort", leave);
  return {
    signal() {
      if (controller === undefined) {
        controller = new AbortController();
        if (over) controller.abort(over);
      }
      return controller.signal;
    },
    deadline: timeoutMs === undefined ? undefined : Date.now() + timeoutMs,
    isOver: () => over !== undefined,
    settle<T>(work: () => Promise<T>, isLast: (result: T) => boolean) {
      if (over) return Promise.reject(over);
      return new Promise<T>((resolve, reject) => {
        rejectWaiting = reject;
        const pass = (result: T) => {
          if (isLast(result)) end(ENDED);
          resolve(result);
        };
        const fail = (thrown: unknown) => {
          end(ENDED);
          reject(masked(thrown));
        };
        try {
          work().then(pass, fail);
        } catch (thrown) {
          fail(thrown); // an interceptor may throw before it returns a promise
        }
      });
    },
  };
}

/**
 * The messages of a streaming call. As in Connect, leaving the loop early does not end the call: only its signal does.
 * An aborted call closes the handler's generator, or fails what hands over more, so that its `finally` runs, and whoever
 * watches the messages hears of it.
 */
export function callMessages<T>(source: Messages<T>, call: InProcessCall): Messages<T> {
  const { each } = source;
  const leave = (from: AsyncIterator<T>) =>
    void (from.throw ?? from.return)?.call(from, call.signal().reason).catch(() => {}); // nobody is left to hear of its failure
  if (call.isOver()) leave(source[Symbol.asyncIterator]()); // before there was anything to read
  const hand = (take: Take<T>) => (message: T) => {
    if (call.isOver()) throw ENDED;
    return take(message);
  };
  return {
    each: each && ((take) => call.settle(() => each(hand(take)), always)),
    [Symbol.asyncIterator]() {
      const from = source[Symbol.asyncIterator]();
      call.signal().addEventListener("abort", () => leave(from), { once: true });
      const next = () => from.next();
      return { next: () => call.settle(next, isDone) };
    },
  };
}

const always = () => true;
const isDone = ({ done }: IteratorResult<unknown>) => done === true;

const masked = (thrown: unknown): ConnectError =>
  thrown instanceof ConnectError
    ? thrown
    : new ConnectError("internal error", Code.Internal, undefined, undefined, thrown);
