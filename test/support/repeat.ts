/** The repetitions of a race: `RACE_ROUNDS` if it is set, and else those of an ordinary run. */
export function repetitions(ordinary: number): number {
  return Number(process.env.RACE_ROUNDS ?? ordinary);
}
