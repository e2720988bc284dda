import type { Logger } from "pino";
import type { Clock } from "./clock.ts";

/**
 * Maximum accepted difference between the clocks of process and database, in ms. If it is larger,
 * one of them is wrong, and it is unknown which.
 */
const MAX_DIFFERENCE_MS = 5 * 60_000;

/** The time that deleting jobs use. */
export type AgreedTime = ReturnType<typeof createAgreedTime>;

type Deps = {
  clock: Clock;
  log: Pick<Logger, "error" | "info">;
  readDatabaseTime(): Promise<Date>;
};

/**
 * Compares the clocks of process and database, so that a wrong clock never deletes anything too
 * early. A job reads the time once per run and uses only that.
 */
export function createAgreedTime({ clock, log, readDatabaseTime }: Deps) {
  let agrees = true;

  /** @returns the earlier of the two times, and whether they agree */
  async function compare(): Promise<{ earlier: Date; agrees: boolean }> {
    const before = clock.now().getTime();
    const database = (await readDatabaseTime()).getTime();
    const after = clock.now().getTime();
    // The database read its clock between our two readings, however long that took.
    const differenceMs = Math.max(before - database, database - after, 0);
    report(differenceMs <= MAX_DIFFERENCE_MS, before, database);
    return { earlier: new Date(Math.min(before, database)), agrees };
  }

  function report(isNear: boolean, process: number, database: number): void {
    if (isNear === agrees) return;
    agrees = isNear;
    const times = { process: new Date(process), database: new Date(database) };
    if (isNear) log.info(times, "the clocks of process and database agree again");
    else log.error(times, "the clocks of process and database differ: deletion is paused");
  }

  return {
    compare,
    /**
     * Reads the time for one run of a deleting job.
     * @returns the earlier of the two times; undefined while they differ by more than 5 minutes, in
     * which case the run is skipped
     */
    async read(): Promise<Date | undefined> {
      const { earlier } = await compare();
      return agrees ? earlier : undefined;
    },
    /** Whether the clocks agreed when they were last compared. */
    agrees: () => agrees,
  };
}
