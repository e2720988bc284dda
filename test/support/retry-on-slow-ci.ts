/** For limits of some milliseconds. A busy machine exceeds them once, a defect at every attempt. */
export const RETRY_ON_SLOW_CI = { retry: 2 };
