/** For promises of a few milliseconds: a busy machine may stand still for longer, once; a defect is late every time. */
export const DESPITE_STALLS = { retry: 2 };
