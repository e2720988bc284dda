/** Work of so many ms, whatever the machine. */
export function workFor(ms: number): void {
  for (const since = performance.now(); performance.now() - since < ms; );
}

/** Watches a count that grows. @returns how far it grew in one turn of the event loop at most, and watches no longer */
export function maxPerTick(count: () => number): () => number {
  let most = 0;
  let last = count();
  const look = () => {
    most = Math.max(most, count() - last);
    last = count();
    next = setImmediate(look);
  };
  let next = setImmediate(look);
  return () => {
    clearImmediate(next);
    return Math.max(most, count() - last);
  };
}

/** Watches how long the event loop stands still. @returns ends the watch and tells the ms lost since it began */
export function measureStalls(everyMs = 5): () => number {
  let last = performance.now();
  let lost = 0;
  const look = () => {
    lost += Math.max(0, performance.now() - last - 2 * everyMs);
    last = performance.now();
  };
  const timer = setInterval(look, everyMs);
  return () => {
    clearInterval(timer);
    look();
    return lost;
  };
}
