import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { Call } from "../call.ts";
import { decimalOf } from "../platform/money.ts";
import { countUsers, type LockedUsers, readLockedUsers } from "../store/admin-users.ts";
import { findLatestFailure } from "../store/emails.ts";
import { listBudgets } from "../store/managed-budgets.ts";
import {
  type CountedEvent,
  countActiveUsersByDay,
  countEventsByDay,
  countEventsByHour,
  countEventsWithin,
  countFailedEmailsByDay,
  countFailedEmailsByHour,
  countFailedEmailsWithin,
  countWaitingEvents,
  type DayCount,
  type ProviderHealth,
  readProviderHealth,
  type WaitingEvents,
} from "../store/overview.ts";
import type { Db } from "../store/statement.ts";
import { firstDetailedDay } from "../store/usage.ts";
import { sumModelHours } from "../store/usage-parts.ts";
import { type ModelTotals, sumModelDays } from "../store/usage-sums.ts";
import { type FailingWebhook, listFailingWebhooks } from "../store/webhooks.ts";
import { toMessage } from "../user/to-message.ts";

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
/** Locked users with a name of their own. */
const MAX_NAMES = 3;
/** More budgets than the deployment can have: cost and tokens, a day and a month. */
const MAX_BUDGETS = 10;
/** Age of an unsealed event that deserves attention, in ms. Sealing takes about a second. */
const UNSEALED_MS = 60_000;

/** Outcomes of calls that are no fault of a provider: it may refuse a request or its content. */
const NO_FAULTS = ["completed", "failed", "rejected the request", "blocked the content"];

/**
 * A number of the last day or hour, and by day or hour. Without a total where days can't be added
 * up.
 */
type Series = { today: number; total?: number; daily: number[]; change?: number };

/**
 * Reads the numbers of a period and what needs attention.
 * @param period `24h`, `7d` or `30d`
 */
export async function readOverview(
  call: Pick<Call, "em" | "store" | "clock" | "config" | "ai">,
  period = "30d",
) {
  const { clock, config, store, ai } = call;
  const now = clock.now();
  await ai.usage.flush();
  const db = () => ({ em: store.fork(), clock }); // the statements run side by side
  const month = periodOf(lastDays(now, DAYS));
  const isByHour = period === "24h";
  const starts = ai.periodsOf(now).starts;
  const [users, locked, lostEmails, lostEmail, providers, webhooks, waiting, budgets, numbers] =
    await Promise.all([
      countUsers(db()),
      readLockedUsers(db(), MAX_NAMES),
      countFailedEmailsByDay(db(), month),
      findLatestFailure(db(), new Date(month.firstDay)),
      readProviderHealth(db(), new Date(now.getTime() - HEALTH_MS), NO_FAULTS),
      listFailingWebhooks(db()),
      countWaitingEvents(db(), new Date(now.getTime() - UNSEALED_MS)),
      listBudgets(db(), { scope: "deployment" }, starts, { limit: MAX_BUDGETS }),
      isByHour
        ? readHours(db, now, firstDetailedDay(now, config.usageRetentionMs))
        : readDays(db, now, period),
    ]);
  const { spans, active, events, emails, models, calls } = numbers;
  const { units } = spans;
  const eventsOf = (event: CountedEvent) =>
    withTotal(
      events.filter((row) => row.event === event),
      spans,
    );
  const signIns = eventsOf("auth.login");
  const failedSignIns = eventsOf("auth.login_failed");
  const share = shareOf(failedSignIns.today, signIns.today);
  const periodShare = shareOf(failedSignIns.total, signIns.total);
  const callCounts = calls.map(({ day, calls: count }) => ({ day, count }));
  const tokens = calls.map(({ day, inputTokens, outputTokens }) => ({
    day,
    count: inputTokens + outputTokens,
  }));
  const aiCost = aiCostOf(calls, spans, ai.catalogue.currency);
  const isConfigured = ai.providers.byId.size > 0;
  return {
    days: isByHour ? [] : units,
    hours: isByHour ? units.map((hour) => timestampFromDate(new Date(hour))) : [],
    users: users.total,
    ...(users.totalEstimated && { usersEstimated: true }),
    activeUsers: isByHour
      ? { today: active[0]?.count ?? 0, daily: [] }
      : { ...seriesOf(active, spans), average: averageOf(active, units) },
    signIns,
    failedSignIns,
    ...(share !== undefined && { failedSignInShare: share }),
    ...(periodShare !== undefined && { periodFailedSignInShare: periodShare }),
    registrations: eventsOf("auth.register"),
    aiCalls: withTotal(callCounts, spans),
    aiTokens: withTotal(tokens, spans),
    ...(aiCost && { aiCost }),
    failedEmails: withTotal(emails, spans),
    models: topModels(models, spans),
    attention: noticesOf({
      ...{ locked, lostEmail, isConfigured, providers, webhooks, waiting },
      failedEmails: sumOf(lostEmails),
    }),
    providers,
    budgets: budgets.items.map(({ unit, period: span, used, limit }) => ({
      ...{ unit, period: span },
      usedShare: Number(limit) > 0 ? Number(used ?? 0) / Number(limit) : 1,
    })),
  };
}

/**
 * The days or hours of a period, oldest first, and the rows that those which are over are compared
 * with.
 */
type Spans = { units: string[]; earlier: string[] };

type CallTotals = Omit<ModelTotals, "provider" | "model">;

/** The numbers of a period and of the one before it, by day or hour. */
type Numbers = {
  spans: Spans;
  active: DayCount[];
  events: (DayCount & { event: CountedEvent })[];
  emails: DayCount[];
  models: ModelTotals[];
  /** The calls of all models. */
  calls: CallTotals[];
};

/** Reads the numbers of the last days, and of as many days before. */
async function readDays(db: () => Db, now: Date, period: string): Promise<Numbers> {
  const count = period === "7d" ? 7 : DAYS;
  const both = lastDays(now, 2 * count);
  const days = periodOf(both);
  const [active, events, emails, models] = await Promise.all([
    countActiveUsersByDay(db(), days),
    countEventsByDay(db(), days),
    countFailedEmailsByDay(db(), days),
    sumModelDays(db(), days),
  ]);
  const spans = { units: both.slice(count), earlier: both.slice(0, count - 1) };
  return { spans, active, events, emails, models, calls: models };
}

/**
 * Reads the numbers of this hour and the 23 before it, and of the 23 hours that those which are over
 * are compared with. Active users are those of today.
 * @param firstDetailed earlier calls are kept by day only, and are not compared
 */
async function readHours(db: () => Db, now: Date, firstDetailed: Date): Promise<Numbers> {
  const thisHour = Math.floor(now.getTime() / HOUR_MS) * HOUR_MS;
  const hourBefore = (hours: number) => new Date(thisHour - hours * HOUR_MS);
  const both = Array.from({ length: 2 * HOURS }, (_, i) =>
    hourBefore(2 * HOURS - 1 - i).toISOString(),
  );
  const spans = { units: both.slice(HOURS), earlier: both.slice(0, HOURS - 1) };
  const first = hourBefore(HOURS - 1);
  const before = { since: hourBefore(2 * HOURS - 1), until: hourBefore(HOURS) };
  const [active, events, emails, hours, pastEvents, pastEmails] = await Promise.all([
    countActiveUsersByDay(db(), periodOf(lastDays(now, 1))),
    countEventsByHour(db(), first),
    countFailedEmailsByHour(db(), first),
    sumModelHours(db(), periodOf(lastDays(now, 3))),
    countEventsWithin(db(), before),
    countFailedEmailsWithin(db(), before),
  ]);
  const day = before.since.toISOString();
  const isCompared = before.since >= firstDetailed;
  const models = isCompared ? hours : hours.filter((row) => row.day >= first.toISOString());
  return {
    spans,
    active,
    events: [...events, ...pastEvents.map((row) => ({ ...row, day }))],
    emails: [...emails, { day, count: pastEmails }],
    models,
    calls: models,
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

/**
 * The numbers of given days or hours. Others do not count, such as an hour of a replica whose clock
 * is ahead.
 */
function countsOf(rows: readonly DayCount[], units: readonly string[]): number[] {
  const counts = new Map<string, number>();
  for (const { day, count } of rows) counts.set(day, (counts.get(day) ?? 0) + count);
  return units.map((unit) => counts.get(unit) ?? 0);
}

const totalOf = (counts: readonly number[]) => counts.reduce((sum, count) => sum + count, 0);

/** The average of the days that are over. */
const averageOf = (rows: readonly DayCount[], days: readonly string[]): number =>
  totalOf(countsOf(rows, days.slice(0, -1))) / (days.length - 1);

/**
 * How the days or hours that are over differ from the same ones one period earlier, as a share. The
 * last one has not ended, and would always seem to be less.
 * @returns undefined if there was nothing earlier
 */
function changeOf(rows: readonly DayCount[], { units, earlier }: Spans): number | undefined {
  const before = totalOf(countsOf(rows, earlier));
  return before > 0 ? totalOf(countsOf(rows, units.slice(0, -1))) / before - 1 : undefined;
}

function seriesOf(rows: readonly DayCount[], spans: Spans): Series {
  const daily = countsOf(rows, spans.units);
  const change = changeOf(rows, spans);
  return { today: daily.at(-1) ?? 0, daily, ...(change !== undefined && { change }) };
}

function withTotal(rows: readonly DayCount[], spans: Spans): Series {
  const series = seriesOf(rows, spans);
  return { ...series, total: totalOf(series.daily) };
}

/** What the calls cost. Undefined if none of them had a price. */
function aiCostOf(calls: readonly CallTotals[], spans: Spans, currency: string) {
  const { units } = spans;
  const within = calls.filter(({ day }) => units.includes(day));
  const sum = (count: (row: CallTotals) => number) => totalOf(within.map(count));
  const pricedCalls = sum((row) => row.pricedCalls);
  if (pricedCalls === 0) return undefined;
  const nanos = new Map(units.map((unit) => [unit, 0n]));
  for (const { day, costNanos } of within)
    nanos.set(day, (nanos.get(day) ?? 0n) + BigInt(costNanos));
  const daily = [...nanos.values()];
  const costs = calls.map(({ day, costNanos }) => ({ day, count: Number(costNanos) }));
  const change = changeOf(costs, spans);
  return {
    currency,
    todayCost: decimalOf(daily.at(-1) ?? 0n),
    totalCost: decimalOf(daily.reduce((total, amount) => total + amount, 0n)),
    dailyCosts: daily.map(decimalOf),
    unpricedCalls: sum((row) => row.calls) - pricedCalls,
    ...(change !== undefined && { change }),
  };
}

/** The models with the most calls, largest first. */
function topModels(models: readonly ModelTotals[], spans: Spans) {
  const byModel = Map.groupBy(models, ({ provider, model }) => JSON.stringify([provider, model]));
  return [...byModel.values()]
    .map((rows) => {
      const { provider, model } = rows[0] as ModelTotals;
      const counts = rows.map(({ day, calls }) => ({ day, count: calls }));
      const { total: calls = 0, daily: dailyCalls } = withTotal(counts, spans);
      return { provider, model, calls, dailyCalls };
    })
    .filter(({ calls }) => calls > 0) // others were called in the period before only
    .sort((a, b) => b.calls - a.calls)
    .slice(0, MAX_MODELS);
}

/** What is known of the things that may need attention. */
type State = {
  locked: LockedUsers;
  failedEmails: number;
  /** How the latest of them failed. */
  lostEmail: string | null;
  isConfigured: boolean;
  providers: readonly ProviderHealth[];
  webhooks: readonly FailingWebhook[];
  waiting: WaitingEvents;
};

function noticesOf(state: State) {
  const { locked, failedEmails, lostEmail, isConfigured, providers, webhooks, waiting } = state;
  const failing = providers.filter(
    ({ calls, failedCalls }) => calls >= MIN_CALLS && failedCalls * 2 >= calls,
  );
  return [
    ...counted("locked-accounts", locked.count, { users: locked.users, until: locked.until }),
    ...counted("failed-emails", failedEmails, { failure: lostEmail }),
    ...(isConfigured ? [] : [{ kind: "no-provider" }]),
    ...failing.map(({ provider, calls, failedCalls: count, lastFailure: failure }) =>
      toMessage({ kind: "provider-failing", provider, calls, count, failure }),
    ),
    ...webhooks.map(({ id, url, description, failingSince, disabledAt, lastError: failure }) =>
      toMessage({
        kind: disabledAt ? "webhook-disabled" : "webhook-failing",
        webhook: toMessage({ id, url, description }),
        since: disabledAt ?? failingSince,
        failure,
      }),
    ),
    ...counted("audit-unsealed", waiting.count, { since: waiting.since }),
  ];
}

const counted = (kind: string, count: number, about: object) =>
  count > 0 ? [toMessage({ kind, count, ...about })] : [];
