// Repeated and concurrent requests, and the count of their outcomes.

/** Makes a number of items by index. */
export function times<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

/**
 * The numbers of concurrent guesses that were evaluated and refused: by a lock, a limit or a full
 * queue.
 */
export function tallyGuesses(answers: readonly { status: number }[]): {
  evaluated: number;
  refused: number;
} {
  const refused = answers.filter(({ status }) => [423, 429, 503].includes(status)).length;
  const evaluated = answers.filter(({ status }) => status === 400 || status === 401).length;
  return { evaluated, refused };
}

/** The number of items of each kind. */
export function tally<T>(
  items: readonly T[],
  kind: (item: T) => string | number,
): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const item of items) counts[kind(item)] = (counts[kind(item)] ?? 0) + 1;
  return counts;
}

/** The number of responses of each status to concurrent requests. */
export const statusesOf = async (
  count: number,
  request: (index: number) => Promise<{ status: number }>,
) => tally(await Promise.all(times(count, request)), ({ status }) => status);

/** The repetitions of a race: `RACE_ROUNDS` if it is set, and else those of an ordinary run. */
export function repetitions(ordinary: number): number {
  return Number(process.env.RACE_ROUNDS ?? ordinary);
}
