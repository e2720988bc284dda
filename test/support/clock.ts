import ms, { type StringValue } from "ms";
import type { Clock } from "../../services/platform/process.ts";

/** A clock that tests move. It runs at the speed of the machine's clock. */
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
