/** Takes a message; while what it returns is unsettled, no more are handed over. */
export type Take<T> = (message: T) => Promise<unknown> | undefined;
type Each<T> = (take: Take<T>) => Promise<void>;

/**
 * The messages of a stream. Services in the same process may hand them over: that costs one call each, where every layer
 * of a loop costs each message turns of the microtask queue.
 */
export type Messages<T> = AsyncIterable<T> & { each?: Each<T> | undefined };

/** Hands every message to `take` as it comes. Resolves after the last one; rejects with the call's failure. */
export async function eachOf<T>(messages: Messages<T>, take: Take<T>): Promise<void> {
  if (messages.each) return messages.each(take);
  for await (const message of messages) {
    const taken = take(message);
    if (taken) await taken;
  }
}
