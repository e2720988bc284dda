/**
 * How long two deeds take, in ms, and how far that is apart. They are done in turns, so that a busy machine is as slow
 * with the one as with the other, and the quieter quarter of the turns counts: whoever measures from outside has to do
 * so as well.
 */
export async function compareTimes(turns: number, one: () => Promise<unknown>, other: () => Promise<unknown>) {
  const ones: number[] = [];
  const others: number[] = [];
  for (let turn = 0; turn < turns; turn++) {
    const both = [async () => ones.push(await spent(one)), async () => others.push(await spent(other))];
    for (const measure of turn % 2 ? both.reverse() : both) await measure(); // neither always comes second
  }
  const [oneMs, otherMs] = [quarter(ones), quarter(others)];
  return { one: oneMs, other: otherMs, apart: Math.abs(oneMs - otherMs) };
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

const quarter = (values: number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 4)] as number;
