// A clock that a test moves.

import ms, { type StringValue } from "ms";
import type { Clock } from "../../services/platform/process/clock.ts";

/** A clock that tests move. It runs at the speed of the machine's clock. */
export type MovableClock = Clock & {
  advance(by: StringValue): void;
  /** How far it is ahead of the machine's clock, in ms. */
  aheadMs(): number;
};

export function createClock(): MovableClock {
  let aheadMs = 0;
  return {
    aheadMs: () => aheadMs,
    now: () => new Date(Date.now() + aheadMs),
    advance(by) {
      aheadMs += ms(by);
    },
  };
}
