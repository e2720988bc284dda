/** Repetitions until the times are alike. Noise disappears, a real difference stays. */
const REPETITIONS = 3;

/** The shortest times of two actions and their difference, in ms. */
export type Times = { one: number; other: number; apart: number };

/**
 * Measures two actions in turns, so that a busy machine slows both alike, until `isEnough` holds.
 * It compares the shortest time of each: load adds to a time and never takes from it.
 */
export async function compareTimes(
  turns: number,
  one: () => Promise<unknown>,
  other: () => Promise<unknown>,
  isEnough: (times: Times) => boolean,
): Promise<Times> {
  const ones: number[] = [];
  const others: number[] = [];
  for (let repetition = 1; ; repetition++) {
    for (let turn = 0; turn < turns; turn++) {
      const both = [
        async () => ones.push(await spent(one)),
        async () => others.push(await spent(other)),
      ];
      for (const measure of turn % 2 ? both.reverse() : both) await measure(); // neither is always second
    }
    const [oneMs, otherMs] = [Math.min(...ones), Math.min(...others)];
    const times = { one: oneMs, other: otherMs, apart: Math.abs(oneMs - otherMs) };
    if (isEnough(times) || repetition === REPETITIONS) return times;
  }
}

/** Runs one action at each call, in order, and begins again after the last. */
export function cycle(actions: (() => Promise<unknown>)[]): () => Promise<unknown> {
  let turn = 0;
  return async () => actions[turn++ % actions.length]?.();
}

/**
 * Runs an action.
 * @returns how long it took, in ms
 */
export async function spent(action: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await action();
  return performance.now() - startedAt;
}
