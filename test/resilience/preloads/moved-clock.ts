/**
 * Loaded before a process, whose clock each SIGUSR2 then moves forwards, backwards and to the right
 * time, in turn. `MOVED_CLOCK_MS`: by how much, an hour by default. `MOVED_CLOCK_MOVES`: the number
 * of moves when the process starts.
 */
const HOUR_MS = 3_600_000;
const STEP_MS = Number(process.env.MOVED_CLOCK_MS ?? HOUR_MS);
const MOVES = [0, STEP_MS, -STEP_MS];
const Real = Date;
let moves = Number(process.env.MOVED_CLOCK_MOVES ?? 0);
let shiftMs = MOVES[moves % MOVES.length] as number;

process.on("SIGUSR2", () => {
  moves += 1;
  shiftMs = MOVES[moves % MOVES.length] as number;
});
globalThis.Date = class extends Real {
  constructor(...values: [number]) {
    super(...((values.length > 0 ? values : [Real.now() + shiftMs]) as [number]));
  }

  static override now = () => Real.now() + shiftMs;
} as DateConstructor;
