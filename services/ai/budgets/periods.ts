import type { BudgetPeriod, PeriodStarts } from "../../store/budgets.ts";

/** The current day and month in the time zone of budgets. */
export type Periods = {
  /** Their first days. */
  starts: PeriodStarts;
  /** When they began. */
  beganAt: Record<BudgetPeriod, Date>;
  /** When they end, and the next ones begin. */
  endsAt: Record<BudgetPeriod, Date>;
};

const HOUR_MS = 3_600_000;
/** Time zones differ from UTC by at most 14 hours, and change by a few more. */
const MAX_OFFSET_MS = 36 * HOUR_MS;

/**
 * Creates a function that returns the periods of a time.
 * @param timeZone name of the IANA time zone database
 */
export function createPeriods(timeZone: string): (now: Date) => Periods {
  const dates = new Intl.DateTimeFormat("en-CA", {
    ...{ timeZone, year: "numeric", month: "2-digit", day: "2-digit" },
  });
  const dayOf = (time: number) => dates.format(time);
  /** The first moment of a day. Midnight may not exist if clocks are put forward then. */
  const startOf = (day: string): Date => {
    const utc = Date.parse(`${day}T00:00:00Z`);
    let [before, at] = [utc - MAX_OFFSET_MS, utc + MAX_OFFSET_MS];
    while (at - before > 1) {
      const middle = Math.floor((before + at) / 2);
      if (dayOf(middle) < day) before = middle;
      else at = middle;
    }
    return new Date(at);
  };
  const periodsOn = (day: string): Periods => {
    const month = `${day.slice(0, 7)}-01`;
    const date = new Date(`${day}T00:00:00Z`);
    const nextDay = new Date(
      Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate() + 1),
    );
    const nextMonth = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1));
    const textOf = (next: Date) => next.toISOString().slice(0, 10);
    return {
      starts: { day, month },
      beganAt: { day: startOf(day), month: startOf(month) },
      endsAt: { day: startOf(textOf(nextDay)), month: startOf(textOf(nextMonth)) },
    };
  };
  let known: Periods | undefined;
  return (now) => {
    const isKnown = known && now >= known.beganAt.day && now < known.endsAt.day;
    if (!known || !isKnown) known = periodsOn(dayOf(now.getTime()));
    return known;
  };
}
