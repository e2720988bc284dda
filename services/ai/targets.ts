/** The targets of a call, in the order in which they are tried. */
export type Targets<T> = readonly [T, ...T[]];

export const mapTargets = <T, U>(
  [first, ...others]: Targets<T>,
  map: (target: T) => U,
): Targets<U> => [map(first), ...others.map(map)];
