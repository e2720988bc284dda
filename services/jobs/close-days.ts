import { setTimeout as wait } from "node:timers/promises";
import type { Config } from "../platform/config/config.ts";
import type { Store } from "../store/store.ts";
import { firstDetailedDay, startOfDay } from "../store/usage.ts";
import { closeDay, closePeriod } from "../store/usage-parts.ts";
import {
  claimRankings,
  findPartEnd,
  RANKED_USERS,
  type Ranking,
  readDayVersions,
  replaceRankings,
  sumPart,
} from "../store/usage-rankings.ts";
import { ignoreLockTimeout } from "./sum-up-earlier.ts";

const DAY_MS = 86_400_000;
/** Pause between two statements, in ms, to give requests priority. */
const PAUSE_MS = 20;
/** Maximum number of days in a report of usage. */
const MAX_DAYS = 367;
/** Periods that the console offers, in days including today. Other periods have no ranking. */
const PERIODS = [7, 30, 90];
/** Number of rows, one per user and day, that one statement sums up. */
const ROWS_PER_STATEMENT = 50_000;

const dayOf = (time: Date | number) => new Date(time).toISOString().slice(0, 10);

/**
 * Sums up the calls of the days that are over, by API key and alias, and ranks the users of the
 * periods that end today or tomorrow. Until then reports return the same, but take longer. Several
 * processes may run this concurrently.
 * @param signal stops the run between two statements
 */
export async function closeDays(
  store: Pick<Store, "fork">,
  now: Date,
  config: Pick<Config, "usageRetentionMs">,
  signal: AbortSignal,
): Promise<void> {
  const today = startOfDay(now).getTime();
  const lastDay = dayOf(today - DAY_MS);
  const firstKept = firstDetailedDay(now, config.usageRetentionMs).getTime();
  const earliest = today - (MAX_DAYS - 1) * DAY_MS;
  const firstDay = dayOf(config.usageRetentionMs ? Math.max(firstKept, earliest) : earliest);
  const close = () => closeDay({ em: store.fork() }, { firstDay, lastDay });
  while (!signal.aborted && (await close().catch(ignoreLockTimeout))) await wait(PAUSE_MS);
  for (const first of firstDaysOf(today)) {
    if (signal.aborted) return;
    const period = { firstDay: first, lastDay };
    await closePeriod({ em: store.fork() }, period).catch(ignoreLockTimeout);
    await wait(PAUSE_MS);
  }
  if (!signal.aborted && (await claimRankings({ em: store.fork() }, { now, lastDay })))
    await rankUsers(store, today, signal);
}

/**
 * First days of the periods of the console that end today or tomorrow. The latter are needed right
 * after midnight.
 */
const firstDaysOf = (today: number) =>
  PERIODS.flatMap((days) => [days - 1, days - 2].map((before) => dayOf(today - before * DAY_MS)));

/**
 * Makes the rankings anew. Users are added up in parts, since no statement may take longer than 15
 * s.
 */
async function rankUsers(
  store: Pick<Store, "fork">,
  today: number,
  signal: AbortSignal,
): Promise<void> {
  const db = () => ({ em: store.fork() });
  const lastDay = dayOf(today - DAY_MS);
  const firstDays = firstDaysOf(today);
  const period = { firstDay: dayOf(today - (Math.max(...PERIODS) - 1) * DAY_MS), lastDay };
  const versions = await readDayVersions(db(), period);
  const rankings = firstDays.map((firstDay): Ranking => ({ firstDay, others: 0, users: [] }));
  let after: string | null = null;
  do {
    const upTo: string | null = await findPartEnd(db(), after, ROWS_PER_STATEMENT);
    const floors = rankings.map(({ users, others }) => (users.length < RANKED_USERS ? -1 : others));
    const part = await sumPart(db(), { ...period, firstDays, floors }, { after, upTo });
    for (const [i, ranking] of rankings.entries()) {
      const floor = floors[i] ?? -1;
      const further = part
        .map(({ userId, tokens }) => ({ userId, tokens: tokens[i] ?? -1 }))
        .filter(({ tokens }) => tokens > floor);
      if (further.length > 0) rankings[i] = withUsers(ranking, further);
    }
    after = upTo;
    await wait(PAUSE_MS);
    if (signal.aborted) return;
  } while (after !== null);
  await replaceRankings(db(), rankings, { lastDay, versions }).catch(ignoreLockTimeout);
}

/** Adds users to a ranking. Of users with equal tokens, those added first are kept. */
function withUsers({ firstDay, users }: Ranking, further: Ranking["users"]): Ranking {
  const all = [...users, ...further].sort((a, b) => b.tokens - a.tokens).slice(0, RANKED_USERS);
  const others = all.length < RANKED_USERS ? 0 : (all.at(-1)?.tokens ?? 0);
  return { firstDay, others, users: all };
}
