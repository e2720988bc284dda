/**
 * Loaded before a process, whose clock each SIGUSR2 then puts forward by an hour, back by one, and
 * right, in turn.
 */
const HOUR_MS = 3_600_000;
const MOVES = [HOUR_MS, -HOUR_MS, 0];
const Real = Date;
let moves = 0;
let shiftMs = 0;

process.on("SIGUSR2", () => {
  shiftMs = MOVES[moves++ % MOVES.length] as number;
});
globalThis.Date = class extends Real {
  constructor(...values: [number]) {
    super(...((values.length > 0 ? values : [Real.now() + shiftMs]) as [number]));
  }

  static override now = () => Real.now() + shiftMs;
} as DateConstructor;
