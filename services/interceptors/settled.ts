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

async function* watched<T>(messages: AsyncIterable<T>, ended: (ending: Ending) => unknown): AsyncIterable<T> {
  let ending: Ending = {};
  try {
    yield* messages;
  } catch (error) {
    ending = { error };
    throw ended(ending) ?? error;
  } finally {
    if (!("error" in ending)) ended(ending);
  }
}
