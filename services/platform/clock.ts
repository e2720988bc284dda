/** What the time is. Tests move it; nothing else may ask the machine. */
export type Clock = { now(): Date };
