import type { StreamRequest, StreamResponse, UnaryRequest, UnaryResponse } from "@connectrpc/connect";

type AnyRequest = UnaryRequest | StreamRequest;
type AnyResponse = UnaryResponse | StreamResponse;
type Next = (req: AnyRequest) => Promise<AnyResponse>;

/** How a call ended. */
export type CallResult = { error: unknown } | Record<never, never>;

/** Called once, when the call has ended. An error that it returns replaces the error of the call. */
type Observer = (result: CallResult) => unknown;

/**
 * Runs the rest of the interceptor chain and reports how the call ended. An interceptor returns before the handler of a
 * stream has started, so a stream ends with its last message.
 */
export async function onComplete(next: Next, req: AnyRequest, observer: Observer): Promise<AnyResponse> {
  let res: AnyResponse;
  try {
    res = await next(req);
  } catch (error) {
    throw observer({ error }) ?? error;
  }
  if (!res.stream) {
    observer({});
    return res;
  }
  return { ...res, message: observe(res.message, observer) } as StreamResponse;
}

/** Adds the observer to messages that are observed already: each nested iterator costs every message microtasks. */
function observe<T>(messages: AsyncIterable<T>, observer: Observer): ObservedStream<T> {
  return messages instanceof ObservedStream
    ? new ObservedStream(messages.source, [...messages.observers, observer])
    : new ObservedStream(messages, [observer]);
}

/** Passes messages on and reports how they ended. */
class ObservedStream<T> implements AsyncIterable<T> {
  readonly source: AsyncIterable<T>;
  /** Innermost first. Each gets the error that the one before it returned. */
  readonly observers: Observer[];

  constructor(source: AsyncIterable<T>, observers: Observer[]) {
    this.source = source;
    this.observers = observers;
  }

  [Symbol.asyncIterator](): AsyncIterator<T, undefined> {
    const from = this.source[Symbol.asyncIterator]();
    let isOver = false;
    const end = (result: CallResult): CallResult => {
      if (isOver) return result;
      isOver = true;
      return this.observers.reduce((last: CallResult, observer) => {
        const error = observer(last);
        return "error" in last ? { error: error ?? last.error } : last;
      }, result);
    };
    const fail = (error: unknown): never => {
      throw (end({ error }) as { error: unknown }).error;
    };
    const pass = (step: IteratorResult<T>) => {
      if (step.done) end({});
      return step;
    };
    return {
      next: () => from.next().then(pass, fail),
      async return() {
        await from.return?.().catch(fail);
        end({});
        return { done: true, value: undefined };
      },
      async throw(reason) {
        await from.return?.().catch(() => {}); // the reason is reported
        return fail(reason);
      },
    };
  }
}
