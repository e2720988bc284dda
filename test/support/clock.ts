import ms, { type StringValue } from "ms";
import type { Clock } from "../../services/platform/process.ts";

/** A clock that runs with the machine's, ahead of it by as much as a test has moved it. */
export type MovableClock = Clock & { advance(by: StringValue): void };

export function createClock(): MovableClock {
  let aheadMs = 0;
  return {
    now: () => new Date(Date.now() + aheadMs),
    advance(by) {
      aheadMs += ms(by);
    },
  };
}
