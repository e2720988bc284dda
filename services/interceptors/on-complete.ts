import type { StreamRequest, StreamResponse, UnaryRequest, UnaryResponse } from "@connectrpc/connect";
import type { Each, Flow } from "../flow.ts";

type AnyRequest = UnaryRequest | StreamRequest;
type AnyResponse = UnaryResponse | StreamResponse;
type Next = (req: AnyRequest) => Promise<AnyResponse>;
type Ended = (ending: CallResult) => unknown;
type Messages<T> = AsyncIterable<T> & Partial<Flow<T>>;

/** How a call ended. */
export type CallResult = { error: unknown } | Record<never, never>;

/**
 * Runs the rest of the chain and reports how the call really ended. A stream's interceptor returns before its handler
 * has started, so the ending of a stream is the ending of its messages.
 * @param ended is told once; what it returns as an error replaces the one that was thrown.
 */
export async function onComplete(next: Next, req: AnyRequest, ended: Ended): Promise<AnyResponse> {
  let res: AnyResponse;
  try {
    res = await next(req);
  } catch (error) {
    throw ended({ error }) ?? error;
  }
  if (!res.stream) {
    ended({});
    return res;
  }
  return { ...res, message: watched(res.message, ended) } as StreamResponse;
}

/** What is watched already gets one more watcher: each layer around it would cost each message a turn of the queue. */
function watched<T>(messages: Messages<T>, ended: Ended): Watched<T> {
  return messages instanceof Watched
    ? new Watched(messages.source, [...messages.watchers, ended])
    : new Watched(messages, [ended]);
}

/** Passes messages on as they come, handed over or one by one, and reports how they ended. */
class Watched<T> implements AsyncIterable<T> {
  readonly source: Messages<T>;
  /** Innermost first: each hears of the error that the one before it made of it. */
  readonly watchers: Ended[];
  readonly each: Each<T> | undefined;

  constructor(source: Messages<T>, watchers: Ended[]) {
    this.source = source;
    this.watchers = watchers;
    this.each =
      source.each &&
      ((take) => {
        const { complete, fail } = this.#ending();
        return (source.each as Each<T>)(take).then(complete, fail);
      });
  }

  [Symbol.asyncIterator](): AsyncIterator<T> {
    const from = this.source[Symbol.asyncIterator]();
    const { complete, fail } = this.#ending();
    const hand = (step: IteratorResult<T>) => {
      if (step.done) complete();
      return step;
    };
    return {
      next: () => from.next().then(hand, fail),
      async return() {
        try {
          await from.return?.();
        } finally {
          complete();
        }
        return { done: true, value: undefined };
      },
      /** So Connect leaves when a reader who takes nothing has gone. */
      async throw(reason) {
        await from.return?.().catch(() => {}); // the reason is told
        return fail(reason);
      },
    };
  }

  /** What tells the watchers of the ending, once. */
  #ending() {
    let isOver = false;
    const end = (ending: CallResult): CallResult => {
      if (isOver) return ending;
      isOver = true;
      let heard = ending;
      for (const ended of this.watchers) {
        const error = ended(heard);
        if ("error" in heard) heard = { error: error ?? heard.error };
      }
      return heard;
    };
    return {
      complete: () => void end({}),
      fail(error: unknown): never {
        throw (end({ error }) as { error: unknown }).error;
      },
    };
  }
}
