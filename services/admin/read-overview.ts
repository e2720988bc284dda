import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { Call } from "../call.ts";
import { decimalOf } from "../platform/money.ts";
import { countLockedUsers, countUsers } from "../store/admin-users.ts";
import {
  type CountedEvent,
  countActiveUsersByDay,
  countEventsByDay,
  countEventsByHour,
  countFailedEmailsByDay,
  countFailedEmailsByHour,
  countWaitingEvents,
  type DayCount,
  type ProviderHealth,
  readProviderHealth,
} from "../store/overview.ts";
import type { Db } from "../store/statement.ts";
import { type ModelTotals, sumModelDays, sumModelHours } from "../store/usage-sums.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** How far back failed e-mails deserve attention, and the longest period, in days. */
const DAYS = 30;
const HOURS = 24;
/** Models that are listed separately. */
const MAX_MODELS = 5;
/** How far back the health of providers goes, in ms. */
const HEALTH_MS = 3_600_000;
/** Number of calls from which on a provider may be said to fail. */
const MIN_CALLS = 5;
/** Age of an unsealed event that deserves attention, in ms. Sealing takes about a second. */
const UNSEALED_MS = 60_000;

/** Outcomes of calls that are no fault of a provider: it may refuse a request or its content. */
const NO_FAULTS = ["completed", "failed", "rejected the request", "blocked the content"];

/** A number of the last day or hour, and by day or hour. Without a total where days can't be added up. */
type Series = { today: number; total?: number; daily: number[] };

type Notice = {
  kind: "locked-accounts" | "failed-emails" | "no-provider" | "provider-failing" | "audit-unsealed";
  count?: number;
  provider?: string;
};

/**
 * Reads the numbers of a period and what needs attention.
 * @param period `24h`, `7d` or `30d`
 */
export async function readOverview(
  call: Pick<Call, "em" | "store" | "clock" | "ai">,
  period = "30d",
) {
  const { clock, store, ai } = call;
  const now = clock.now();
  await ai.usage.flush();
  const db = () => ({ em: store.fork(), clock }); // the statements run side by side
  const month = periodOf(lastDays(now, DAYS));
  const numbers = period === "24h" ? readHours(db, now) : readDays(db, now, period);
  const [users, locked, lostEmails, providers, waiting, series] = await Promise.all([
    countUsers(db()),
    countLockedUsers(db()),
    countFailedEmailsByDay(db(), month),
    readProviderHealth(db(), new Date(now.getTime() - HEALTH_MS), NO_FAULTS),
    countWaitingEvents(db(), new Date(now.getTime() - UNSEALED_MS)),
    numbers,
  ]);
  const { units, active, events, emails, modelDays } = series;
  const eventsOf = (event: CountedEvent) =>
    withTotal(
      events.filter((row) => row.event === event),
      units,
    );
  const signIns = eventsOf("auth.login");
  const failedSignIns = eventsOf("auth.login_failed");
  const share = shareOf(failedSignIns.today, signIns.today);
  const periodShare = shareOf(failedSignIns.total, signIns.total);
  const calls = modelDays.map(({ day, calls: count }) => ({ day, count }));
  const tokens = modelDays.map(({ day, inputTokens, outputTokens }) => ({
    day,
    count: inputTokens + outputTokens,
  }));
  const aiCost = aiCostOf(modelDays, units, ai.catalogue.currency);
  const isConfigured = ai.providers.byId.size > 0;
  const isByHour = period === "24h";
  return {
    days: isByHour ? [] : units,
    hours: isByHour ? units.map((hour) => timestampFromDate(new Date(hour))) : [],
    users: users.total,
    ...(users.totalEstimated && { usersEstimated: true }),
    activeUsers: isByHour ? { today: active[0]?.count ?? 0, daily: [] } : seriesOf(active, units),
    signIns,
    failedSignIns,
    ...(share !== undefined && { failedSignInShare: share }),
    ...(periodShare !== undefined && { periodFailedSignInShare: periodShare }),
    registrations: eventsOf("auth.register"),
    aiCalls: withTotal(calls, units),
    aiTokens: withTotal(tokens, units),
    ...(aiCost && { aiCost }),
    failedEmails: withTotal(emails, units),
    models: topModels(modelDays, units),
    attention: noticesOf({
      locked,
      failedEmails: sumOf(lostEmails),
      isConfigured,
      providers,
      waiting,
    }),
    providers,
  };
}

/** The numbers of a period, by its days or hours, which are oldest first. */
type Numbers = {
  units: string[];
  active: DayCount[];
  events: (DayCount & { event: CountedEvent })[];
  emails: DayCount[];
  modelDays: ModelTotals[];
};

/** Reads the numbers of the last days. */
async function readDays(db: () => Db, now: Date, period: string): Promise<Numbers> {
  const units = lastDays(now, period === "7d" ? 7 : DAYS);
  const days = periodOf(units);
  const [active, events, emails, modelDays] = await Promise.all([
    countActiveUsersByDay(db(), days),
    countEventsByDay(db(), days),
    countFailedEmailsByDay(db(), days),
    sumModelDays(db(), days),
  ]);
  return { units, active, events, emails, modelDays };
}

/** Reads the numbers of this hour and the 23 before it. Active users are those of today. */
async function readHours(db: () => Db, now: Date): Promise<Numbers> {
  const thisHour = Math.floor(now.getTime() / HOUR_MS) * HOUR_MS;
  const first = new Date(thisHour - (HOURS - 1) * HOUR_MS);
  const units = Array.from({ length: HOURS }, (_, i) =>
    new Date(first.getTime() + i * HOUR_MS).toISOString(),
  );
  const isWithin = ({ day }: { day: string }) => units.includes(day); // the clocks of replicas differ
  const [active, events, emails, modelHours] = await Promise.all([
    countActiveUsersByDay(db(), periodOf(lastDays(now, 1))),
    countEventsByHour(db(), first),
    countFailedEmailsByHour(db(), first),
    sumModelHours(db(), first),
  ]);
  return {
    units,
    active,
    events: events.filter(isWithin),
    emails: emails.filter(isWithin),
    modelDays: modelHours.filter(isWithin),
  };
}

/** The last days in UTC, oldest first. */
const lastDays = (now: Date, count: number): string[] =>
  Array.from({ length: count }, (_, i) =>
    new Date(now.getTime() - (count - 1 - i) * DAY_MS).toISOString().slice(0, 10),
  );

const periodOf = (days: string[]) => ({
  firstDay: days[0] as string,
  lastDay: days.at(-1) as string,
});

const sumOf = (rows: readonly DayCount[]) => rows.reduce((sum, { count }) => sum + count, 0);

/** Share of sign-ins that failed. Undefined if there were none. */
const shareOf = (failed = 0, succeeded = 0) =>
  failed + succeeded > 0 ? failed / (failed + succeeded) : undefined;

function seriesOf(rows: readonly DayCount[], days: readonly string[]): Series {
  const counts = new Map<string, number>();
  for (const { day, count } of rows) counts.set(day, (counts.get(day) ?? 0) + count);
  const daily = days.map((day) => counts.get(day) ?? 0);
  return { today: daily.at(-1) ?? 0, daily };
}

function withTotal(rows: readonly DayCount[], days: readonly string[]): Series {
  const series = seriesOf(rows, days);
  return { ...series, total: series.daily.reduce((sum, count) => sum + count, 0) };
}

/** What the calls cost. Undefined if none of them had a price. */
function aiCostOf(modelDays: readonly ModelTotals[], days: readonly string[], currency: string) {
  const sum = (count: (row: ModelTotals) => number) =>
    modelDays.reduce((total, row) => total + count(row), 0);
  const pricedCalls = sum((row) => row.pricedCalls);
  if (pricedCalls === 0) return undefined;
  const nanos = new Map(days.map((day) => [day, 0n]));
  for (const { day, costNanos } of modelDays)
    nanos.set(day, (nanos.get(day) ?? 0n) + BigInt(costNanos));
  const daily = [...nanos.values()];
  return {
    currency,
    todayCost: decimalOf(daily.at(-1) ?? 0n),
    totalCost: decimalOf(daily.reduce((total, amount) => total + amount, 0n)),
    dailyCosts: daily.map(decimalOf),
    unpricedCalls: sum((row) => row.calls) - pricedCalls,
  };
}

/** The models with the most calls, largest first. */
function topModels(modelDays: readonly ModelTotals[], days: readonly string[]) {
  const byModel = Map.groupBy(modelDays, ({ provider, model }) =>
    JSON.stringify([provider, model]),
  );
  return [...byModel.values()]
    .map((rows) => {
      const { provider, model } = rows[0] as ModelTotals;
      const counts = rows.map(({ day, calls }) => ({ day, count: calls }));
      const { total = 0, daily } = withTotal(counts, days);
      return { provider, model, calls: total, dailyCalls: daily };
    })
    .sort((a, b) => b.calls - a.calls)
    .slice(0, MAX_MODELS);
}

/** What is known of the things that may need attention. */
type State = {
  locked: number;
  failedEmails: number;
  isConfigured: boolean;
  providers: readonly ProviderHealth[];
  waiting: number;
};

function noticesOf({ locked, failedEmails, isConfigured, providers, waiting }: State): Notice[] {
  const failing = providers.filter(
    ({ calls, failedCalls }) => calls >= MIN_CALLS && failedCalls * 2 >= calls,
  );
  return [
    ...counted("locked-accounts", locked),
    ...counted("failed-emails", failedEmails),
    ...(isConfigured ? [] : [{ kind: "no-provider" } as const]),
    ...failing.map(
      ({ provider, failedCalls: count }): Notice => ({ kind: "provider-failing", provider, count }),
    ),
    ...counted("audit-unsealed", waiting),
  ];
}

const counted = (kind: Notice["kind"], count: number): Notice[] =>
  count > 0 ? [{ kind, count }] : [];
