/** Takes an item; while what it returns is unsettled, no more are handed over. */
export type Take<T> = (item: T) => Promise<void> | undefined;

/**
 * Hands every item to `take` as it comes. Resolves after the last one; rejects with what went wrong, or with what `take`
 * threw.
 */
export type Each<T> = (take: Take<T>) => Promise<void>;

/**
 * Items that can be looped over, and handed over as well: that costs one call each, where every layer of a loop costs each
 * item turns of the microtask queue.
 */
export type Flow<T> = AsyncIterable<T, undefined> & { each: Each<T> };

/** What a hand-over meets when its reader has left the loop. */
export class Left extends Error {
  constructor() {
    super("The reader has left.");
  }
}

/** Makes a flow, to be read once. Nothing begins before the first item is asked for. */
export function flow<T>(each: Each<T>): Flow<T> {
  return { each, [Symbol.asyncIterator]: () => oneByOne(each) };
}

const OVER: IteratorReturnResult<undefined> = { done: true, value: undefined };

/** Asks for the items one after the other; the next one is asked for when the last has come. */
function oneByOne<T>(each: Each<T>): AsyncIterator<T, undefined> {
  let asked: PromiseWithResolvers<IteratorResult<T, undefined>> | undefined;
  let handedOver: PromiseWithResolvers<void> | undefined;
  let running: Promise<void> | undefined;
  let ending: { error?: unknown } | undefined;
  let hasLeft = false;

  const take = (value: T) => {
    if (hasLeft) throw new Left();
    handedOver = Promise.withResolvers();
    asked?.resolve({ done: false, value });
    asked = undefined;
    return handedOver.promise;
  };
  const tell = () => {
    if (ending && "error" in ending) asked?.reject(ending.error);
    else asked?.resolve(OVER);
    if (asked) ending = {}; // a failure is told once
  };
  const end = (how: typeof ending) => {
    ending = how;
    tell();
  };
  const leave = async () => {
    hasLeft = true;
    handedOver?.reject(new Left());
    await running;
    ending = {};
  };
  return {
    next() {
      asked = Promise.withResolvers();
      const { promise } = asked;
      if (ending) tell();
      else if (handedOver) handedOver.resolve();
      else
        running = each(take).then(
          () => end({}),
          (error) => end(hasLeft ? {} : { error }),
        );
      return promise;
    },
    async return() {
      await leave();
      return OVER;
    },
    async throw(reason) {
      await leave();
      throw reason;
    },
  };
}
