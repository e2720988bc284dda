import { randomInt } from "node:crypto";

/** A choice with its share of the calls. */
type Weighted = { weight: number };

/**
 * The order in which a call tries the targets of an alias: one of them by weight, then the others
 * in the order of the list. Targets to avoid come last.
 */
export function orderTargets<T extends Weighted>(
  targets: readonly T[],
  isAvoided: (target: T) => boolean,
): T[] {
  const { good = [], avoided = [] } = Object.groupBy(targets, (target) =>
    isAvoided(target) ? "avoided" : "good",
  );
  return [...withOneFirst(good), ...withOneFirst(avoided)];
}

function withOneFirst<T extends Weighted>(targets: readonly T[]): T[] {
  const first = chooseByWeight(targets);
  return first ? [first, ...targets.filter((target) => target !== first)] : [...targets];
}

/** Undefined if no target has a weight. */
function chooseByWeight<T extends Weighted>(targets: readonly T[]): T | undefined {
  const total = targets.reduce((sum, { weight }) => sum + weight, 0);
  if (total === 0) return undefined;
  let left = randomInt(total);
  return targets.find(({ weight }) => {
    left -= weight;
    return left < 0;
  });
}
