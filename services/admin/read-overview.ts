import type { Call } from "../call.ts";
import { decimalOf } from "../platform/money.ts";
import { countLockedUsers, countUsers } from "../store/admin-users.ts";
import {
  type CountedEvent,
  countActiveUsersByDay,
  countEventsByDay,
  countFailedEmailsByDay,
  countWaitingEvents,
  type DayCount,
  type ProviderHealth,
  readProviderHealth,
} from "../store/overview.ts";
import { type ModelDay, sumModelDays } from "../store/usage-sums.ts";

const DAY_MS = 86_400_000;
const DAYS = 30;
/** Models with numbers of their own. */
const MAX_MODELS = 5;
/** How far back the health of providers goes, in ms. */
const HEALTH_MS = 3_600_000;
/** Number of calls from which on a provider may be said to fail. */
const MIN_CALLS = 5;
/** Age of an unsealed event that deserves attention, in ms. Sealing takes about a second. */
const UNSEALED_MS = 60_000;

/** Outcomes of calls that are no fault of a provider: it may refuse a request or its content. */
const NO_FAULTS = ["completed", "failed", "rejected the request", "blocked the content"];

/** A number of today and by day, oldest first. Without a total where days can't be added up. */
type Series = { today: number; total?: number; daily: number[] };

type Notice = {
  kind: "locked-accounts" | "failed-emails" | "no-provider" | "provider-failing" | "audit-unsealed";
  count?: number;
  provider?: string;
};

/** Reads the numbers of the last 30 days and what needs attention. */
export async function readOverview(call: Pick<Call, "em" | "store" | "clock" | "ai">) {
  const { clock, store, ai } = call;
  const now = clock.now();
  const days = lastDays(now);
  const period = { firstDay: days[0] as string, lastDay: days.at(-1) as string };
  await ai.usage.flush();
  const db = () => ({ em: store.fork(), clock }); // the statements run side by side
  const since = new Date(now.getTime() - HEALTH_MS);
  const [users, locked, active, events, emails, modelDays, providers, waiting] = await Promise.all([
    countUsers(db()),
    countLockedUsers(db()),
    countActiveUsersByDay(db(), period),
    countEventsByDay(db(), period),
    countFailedEmailsByDay(db(), period),
    sumModelDays(db(), period),
    readProviderHealth(db(), since, NO_FAULTS),
    countWaitingEvents(db(), new Date(now.getTime() - UNSEALED_MS)),
  ]);
  const eventsOf = (event: CountedEvent) =>
    withTotal(
      events.filter((row) => row.event === event),
      days,
    );
  const signIns = eventsOf("auth.login");
  const failedSignIns = eventsOf("auth.login_failed");
  const attempts = signIns.today + failedSignIns.today;
  const failedEmails = withTotal(emails, days);
  const calls = modelDays.map(({ day, calls: count }) => ({ day, count }));
  const tokens = modelDays.map(({ day, inputTokens, outputTokens }) => ({
    day,
    count: inputTokens + outputTokens,
  }));
  const aiCost = aiCostOf(modelDays, days, ai.catalogue.currency);
  const isConfigured = ai.providers.byId.size > 0;
  return {
    days,
    users: users.total,
    ...(users.totalEstimated && { usersEstimated: true }),
    activeUsers: seriesOf(active, days),
    signIns,
    failedSignIns,
    ...(attempts > 0 && { failedSignInShare: failedSignIns.today / attempts }),
    registrations: eventsOf("auth.register"),
    aiCalls: withTotal(calls, days),
    aiTokens: withTotal(tokens, days),
    ...(aiCost && { aiCost }),
    failedEmails,
    models: topModels(modelDays, days),
    attention: noticesOf({
      locked,
      failedEmails: failedEmails.total ?? 0,
      isConfigured,
      providers,
      waiting,
    }),
    providers,
  };
}

/** The last days in UTC, oldest first. */
const lastDays = (now: Date): string[] =>
  Array.from({ length: DAYS }, (_, i) =>
    new Date(now.getTime() - (DAYS - 1 - i) * DAY_MS).toISOString().slice(0, 10),
  );

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
function aiCostOf(modelDays: readonly ModelDay[], days: readonly string[], currency: string) {
  const sum = (count: (row: ModelDay) => number) =>
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
function topModels(modelDays: readonly ModelDay[], days: readonly string[]) {
  const byModel = Map.groupBy(modelDays, ({ provider, model }) =>
    JSON.stringify([provider, model]),
  );
  return [...byModel.values()]
    .map((rows) => {
      const { provider, model } = rows[0] as ModelDay;
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
