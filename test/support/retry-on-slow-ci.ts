/** For promises of a few milliseconds: a busy machine may stand still for longer, once; a defect is late every time. */
export const RETRY_ON_SLOW_CI = { retry: 2 };
