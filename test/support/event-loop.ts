/** Measures how long the event loop is blocked. @returns a function that stops and returns the sum, in ms */
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
