import type { StreamRequest, StreamResponse, UnaryRequest, UnaryResponse } from "@connectrpc/connect";

type AnyRequest = UnaryRequest | StreamRequest;
type AnyResponse = UnaryResponse | StreamResponse;
type Next = (req: AnyRequest) => Promise<AnyResponse>;

/** How a call ended. */
export type Ending = { error: unknown } | Record<never, never>;

/**
 * Runs the rest of the chain and tells how the call really ended. A stream's interceptor returns before its handler
 * has started, so the ending of a stream is the ending of its messages.
 * @param ended is told once; what it returns as an error replaces the one that was thrown.
 */
export async function settled(next: Next, req: AnyRequest, ended: (ending: Ending) => unknown): Promise<AnyResponse> {
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

/** Hands messages on as they come; a generator in between would cost each of them several turns of the queue. */
function watched<T>(messages: AsyncIterable<T>, ended: (ending: Ending) => unknown): AsyncIterable<T> {
  return {
    [Symbol.asyncIterator]() {
      const from = messages[Symbol.asyncIterator]();
      let isOver = false;
      const end = (ending: Ending) => {
        if (isOver) return undefined;
        isOver = true;
        return ended(ending);
      };
      const hand = (step: IteratorResult<T>) => {
        if (step.done) end({});
        return step;
      };
      const fail = (error: unknown) => {
        throw end({ error }) ?? error;
      };
      return {
        next: () => from.next().then(hand, fail),
        async return() {
          try {
            await from.return?.();
          } finally {
            end({});
          }
          return { done: true, value: undefined };
        },
      };
    },
  };
}
