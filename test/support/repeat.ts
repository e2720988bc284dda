/** How often a race is run: a few times in an ordinary run, `RACE_ROUNDS` times where it is set. */
export function repetitions(ordinary: number): number {
  return Number(process.env.RACE_ROUNDS ?? ordinary);
}
