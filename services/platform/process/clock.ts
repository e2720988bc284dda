/** The only source of the current time. Tests control it. */
export type Clock = { now(): Date };

export const systemClock: Clock = { now: () => new Date() };
