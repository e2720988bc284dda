/** A turn of the event loop that has gone on for so long is not made longer by what can wait, in ms. */
const LONG_MS = 20;

const line: (() => void)[] = []; // one for the process, as there is one event loop
let isMoving = false;
/** When the present turn was first looked at; undefined between turns. */
let began: number | undefined;

/** Whether the present turn has been long, or others wait for theirs: what can wait is to go in line. */
export function isBusy(): boolean {
  if (line.length > 0) return true;
  if (began === undefined) {
    began = performance.now();
    setImmediate(() => {
      began = undefined;
    });
  }
  return performance.now() - began > LONG_MS;
}

/**
 * Runs a job when its turn comes: those in line share one part of each turn, and after a long job everybody else has as
 * much time as it took. The job may not throw.
 */
export function inLine(job: () => void): void {
  line.push(job);
  if (isMoving) return;
  isMoving = true;
  setImmediate(move);
}

/** Runs a job now, or in line where the process is busy. The job may not throw. */
export function soon(job: () => void): void {
  if (isBusy()) inLine(job);
  else job();
}

function move(): void {
  const since = performance.now();
  let tookMs = 0;
  while (line.length > 0 && tookMs < LONG_MS) {
    line.shift()?.();
    tookMs = performance.now() - since;
  }
  isMoving = line.length > 0;
  if (!isMoving) return;
  if (tookMs < 2 * LONG_MS) setImmediate(move);
  else setTimeout(move, tookMs);
}
