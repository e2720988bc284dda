/** The only source of the present time. Tests move it. */
export type Clock = { now(): Date };

export const systemClock: Clock = { now: () => new Date() };
