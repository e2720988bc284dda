import type { Logger } from "pino";
import type { Clock } from "./clock.ts";

/**
 * Largest difference between the clock of the process and that of the database, in ms. Beyond it one
 * of them is wrong, and nobody knows which.
 */
const MAX_DIFFERENCE_MS = 5 * 60_000;

/** The time by which jobs delete. */
export type AgreedTime = ReturnType<typeof createAgreedTime>;

type Deps = {
  clock: Clock;
  log: Pick<Logger, "error" | "info">;
  readDatabaseTime(): Promise<Date>;
};

/**
 * Compares the clock of the process with that of the database, so that no wrong clock deletes
 * anything before its time. A job reads the time once per run and deletes by it alone.
 */
export function createAgreedTime({ clock, log, readDatabaseTime }: Deps) {
  let agrees = true;

  /** @returns the earlier of both times, and whether they agree */
  async function compare(): Promise<{ earlier: Date; agrees: boolean }> {
    const before = clock.now().getTime();
    const database = (await readDatabaseTime()).getTime();
    const after = clock.now().getTime();
    // The database has read its clock between the two readings of ours, however long that took.
    const differenceMs = Math.max(before - database, database - after, 0);
    report(differenceMs <= MAX_DIFFERENCE_MS, before, database);
    return { earlier: new Date(Math.min(before, database)), agrees };
  }

  function report(isNear: boolean, process: number, database: number): void {
    if (isNear === agrees) return;
    agrees = isNear;
    const times = { process: new Date(process), database: new Date(database) };
    if (isNear) log.info(times, "the clocks of process and database agree again");
    else
      log.error(times, "the clocks of process and database differ: nothing is deleted meanwhile");
  }

  return {
    compare,
    /**
     * Reads the time for one run of a job that deletes.
     * @returns the earlier of both times; undefined while they differ by more than 5 minutes: the
     * run is left out
     */
    async read(): Promise<Date | undefined> {
      const { earlier } = await compare();
      return agrees ? earlier : undefined;
    },
    /** Whether the clocks agreed when they were last compared. */
    agrees: () => agrees,
  };
}
