/**
 * How long two deeds take, in ms: medians of what is measured in turns, so that a busy machine is as slow with the one
 * as with the other, and the median of how much longer the first one took than the second beside it.
 */
export async function compareTimes(turns: number, one: () => Promise<unknown>, other: () => Promise<unknown>) {
  const measured: [number, number][] = [];
  for (let turn = 0; turn < turns; turn++) {
    const isSwapped = turn % 2 === 1; // neither is always the one that comes second
    const [first, second] = [await spent(isSwapped ? other : one), await spent(isSwapped ? one : other)];
    measured.push(isSwapped ? [second, first] : [first, second]);
  }
  return {
    one: median(measured.map(([ms]) => ms)),
    other: median(measured.map(([, ms]) => ms)),
    apart: Math.abs(median(measured.map(([a, b]) => a - b))),
  };
}

/** Does one of several deeds after the other, from the beginning again after the last. */
export function inTurn(deeds: (() => Promise<unknown>)[]): () => Promise<unknown> {
  let turn = 0;
  return async () => deeds[turn++ % deeds.length]?.();
}

async function spent(deed: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await deed();
  return performance.now() - startedAt;
}

const median = (values: number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] as number;
