// Waiting for a condition.

import { setTimeout as wait } from "node:timers/promises";

/** A count that does not change for this time has stopped, even on a busy machine. */
const STILL_MS = 150;

/** Only a wait that hangs takes so long, even on one busy core. In ms. */
const LONGEST_WAIT_MS = 100_000;

/** Codes of errors by which a file, process or port that a test waits for is not there yet. */
const ABSENT = ["ENOENT", "ESRCH", "ECONNREFUSED", "ECONNRESET", "EPIPE"];

/** Whether an error says that something is absent. That of `fetch` has it as its cause. */
function isAbsence(error: unknown): boolean {
  const { code, cause } = error as { code?: string; cause?: { code?: string } };
  return [code, cause?.code].some((each) => each !== undefined && ABSENT.includes(each));
}

/**
 * Waits for a value that is neither undefined nor false. What it looks at may not exist yet.
 * @returns it
 * @throws Error with its name after the limit
 */
export async function until<T>(
  what: string,
  look: () => T | undefined | Promise<T | undefined>,
  withinMs = LONGEST_WAIT_MS,
): Promise<T> {
  let absence: unknown;
  for (
    const deadline = performance.now() + withinMs;
    performance.now() < deadline;
    await wait(10)
  ) {
    try {
      const found = await look();
      if (found !== undefined && found !== false) return found;
    } catch (error) {
      if (!isAbsence(error)) throw error;
      absence = error;
    }
  }
  throw new Error(`waited ${withinMs} ms in vain for ${what}`, { cause: absence });
}

/** Waits until a count has begun to grow and stops growing. */
export async function untilStill(what: string, count: () => number): Promise<void> {
  let [last, since] = [0, 0];
  await until(what, () => {
    if (count() !== last) [last, since] = [count(), performance.now()];
    return last > 0 && performance.now() - since > STILL_MS;
  });
}
