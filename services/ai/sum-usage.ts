import type { Message } from "@bufbuild/protobuf";
import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import type { SumUsageRequest } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import type { UserCall } from "../call.ts";
import { decimalOf } from "../platform/money.ts";
import { invalid } from "../platform/rpc/errors.ts";
import type { Person } from "../store/person.ts";
import { sumPartDays } from "../store/usage-parts.ts";
import { findTopUsers } from "../store/usage-rankings.ts";
import {
  type CallSums,
  type Days,
  type ModelDay,
  sumModelDays,
  sumModelDaysOf,
  sumUserDays,
} from "../store/usage-sums.ts";
import type { AiContext } from "./context.ts";

const DAY_MS = 86_400_000;
/** Days that the response covers if the request has no `from`. */
const DEFAULT_DAYS = 30;
/** Maximum number of days before the last one. */
const MAX_DAYS = 366;
const DEFAULT_GROUPS = 10;

/** Counts of calls that are added up without conversion. */
const COUNTS = [
  ...(["calls", "inputTokens", "outputTokens", "estimatedCalls"] as const),
  ...(["cachedInputTokens", "reasoningTokens", "pricedCalls"] as const),
] as const;

/** Sums of a period, in total and by day. */
type PeriodSums = Omit<CallSums, "costNanos"> & {
  costNanos: bigint;
  dailyCalls: number[];
  dailyTokens: number[];
  dailyNanos: bigint[];
};

/** Sums as they are reported, with the cost as money. */
type ReportedSums = ReturnType<typeof reportedSumsOf>;

/** What a group has in common. */
type GroupName = {
  day?: string;
  user?: Person;
  provider?: string;
  model?: string;
  apiKeyId?: string;
  apiKeyName?: string;
  alias?: string;
};
type Group = GroupName & { sums: PeriodSums };
/** The calls of a group on a day. */
type GroupDay = CallSums & { day: string; group: GroupName };

type UsageReport = {
  days: string[];
  totals: ReportedSums;
  groups: (GroupName & { usage: ReportedSums })[];
  others?: ReportedSums;
  currency: string;
  pricesAsOf?: string;
};

/**
 * Sums up the usage of all users, or of one, by day, user, model, provider, API key or alias.
 * @throws ServiceError VALIDATION_FAILED
 */
export async function sumUsage(
  call: Pick<UserCall, "em" | "clock"> & { ai: Pick<AiContext, "usage" | "catalogue"> },
  {
    userId,
    from,
    to,
    groupBy = "day",
    limit = DEFAULT_GROUPS,
  }: Omit<SumUsageRequest, keyof Message>,
): Promise<UsageReport> {
  const days = daysOf(call.clock.now(), from, to);
  const period = { firstDay: days[0] as string, lastDay: days.at(-1) as string };
  await call.ai.usage.flush();
  const modelDays = await (userId
    ? sumModelDaysOf(call, { userId, ...period })
    : sumModelDays(call, period));
  const totals = addUp(modelDays, days);
  const rows = await rowsOf(call, groupBy, { ...period, limit, userId, modelDays });
  const groups = groupsOf(rows, days).sort(groupBy === "day" ? newestFirst : mostTokensFirst);
  const listed = groups.slice(0, limit);
  const others = subtract(totals, listed);
  const { currency, pricesAsOf } = call.ai.catalogue;
  return {
    days,
    totals: reportedSumsOf(totals),
    groups: listed.map(({ sums, ...name }) => ({ ...name, usage: reportedSumsOf(sums) })),
    ...(others.calls > 0 && { others: reportedSumsOf(others) }),
    currency,
    ...(pricesAsOf !== undefined && { pricesAsOf }),
  };
}

/**
 * The days of a period, oldest first.
 * @throws ServiceError VALIDATION_FAILED
 */
function daysOf(now: Date, from: Timestamp | undefined, to: Timestamp | undefined): string[] {
  const dayOf = (time: number) => Math.floor(time / DAY_MS);
  const last = dayOf((to ? timestampDate(to) : now).getTime());
  const first = from ? dayOf(timestampDate(from).getTime()) : last - DEFAULT_DAYS + 1;
  if (first > last) throw invalid("from", "must not be after the end");
  if (first < last - MAX_DAYS)
    throw invalid("from", `must be at most ${MAX_DAYS} days before the end`);
  return Array.from({ length: last - first + 1 }, (_, i) =>
    new Date((first + i) * DAY_MS).toISOString().slice(0, 10),
  );
}

type RowsRequest = Days & {
  limit: number;
  userId: string | undefined;
  modelDays: readonly ModelDay[];
};

/** The rows of the groups. */
async function rowsOf(
  call: Pick<UserCall, "em">,
  groupBy: string,
  { userId, modelDays, ...request }: RowsRequest,
): Promise<GroupDay[]> {
  if (groupBy === "user") return userRows(call, request, userId);
  if (groupBy === "key" || groupBy === "alias") {
    const filter = { ...request, by: groupBy, userId: userId ?? null } as const;
    return (await sumPartDays(call, filter)).map(({ part, name, user, ...row }) => ({
      ...row,
      group:
        groupBy === "alias"
          ? { alias: part }
          : { apiKeyId: part, ...(name !== null && { apiKeyName: name }), ...(user && { user }) },
    }));
  }
  return modelDays.map((row) => ({ ...row, group: nameOf(row, groupBy) }));
}

/** The rows of the users with the most tokens. */
async function userRows(
  call: Pick<UserCall, "em">,
  request: Days & { limit: number },
  userId: string | undefined,
): Promise<GroupDay[]> {
  const userIds = userId ? [userId] : (await findTopUsers(call, request)).map((top) => top.userId);
  if (userIds.length === 0) return [];
  const rows = await sumUserDays(call, { userIds, ...request });
  return rows.map(({ user, ...row }) => ({ ...row, group: { user } }));
}

function nameOf({ day, provider, model }: ModelDay, groupBy: string): GroupName {
  if (groupBy === "day") return { day };
  return groupBy === "provider" ? { provider } : { provider, model };
}

const newestFirst = (a: Group, b: Group) => ((a.day ?? "") < (b.day ?? "") ? 1 : -1);
const tokensOf = ({ inputTokens, outputTokens }: Pick<CallSums, "inputTokens" | "outputTokens">) =>
  inputTokens + outputTokens;
const mostTokensFirst = (a: Group, b: Group) =>
  tokensOf(b.sums) - tokensOf(a.sums) || b.sums.calls - a.sums.calls;

function groupsOf(rows: readonly GroupDay[], days: readonly string[]): Group[] {
  const byKey = Map.groupBy(rows, ({ group: { day, user, provider, model, apiKeyId, alias } }) =>
    JSON.stringify([day, user?.id, provider, model, apiKeyId, alias]),
  );
  return [...byKey.values()].map((members) => ({
    ...(members[0] as GroupDay).group,
    sums: addUp(members, days),
  }));
}

const emptySums = (days: readonly string[]): PeriodSums => ({
  calls: 0,
  inputTokens: 0,
  outputTokens: 0,
  estimatedCalls: 0,
  cachedInputTokens: 0,
  reasoningTokens: 0,
  pricedCalls: 0,
  costNanos: 0n,
  dailyCalls: days.map(() => 0),
  dailyTokens: days.map(() => 0),
  dailyNanos: days.map(() => 0n),
});

/** Adds up rows, in total and by day. */
function addUp(rows: readonly (CallSums & { day: string })[], days: readonly string[]): PeriodSums {
  const sums = emptySums(days);
  const indexes = new Map(days.map((day, i) => [day, i]));
  for (const row of rows) {
    const nanos = BigInt(row.costNanos);
    for (const count of COUNTS) sums[count] += row[count];
    sums.costNanos += nanos;
    const i = indexes.get(row.day) ?? 0;
    sums.dailyCalls[i] = (sums.dailyCalls[i] ?? 0) + row.calls;
    sums.dailyTokens[i] = (sums.dailyTokens[i] ?? 0) + tokensOf(row);
    sums.dailyNanos[i] = (sums.dailyNanos[i] ?? 0n) + nanos;
  }
  return sums;
}

/** What is left of the totals without some groups. */
function subtract(totals: PeriodSums, groups: readonly Group[]): PeriodSums {
  const left = structuredClone(totals);
  for (const { sums } of groups) {
    for (const count of COUNTS) left[count] -= sums[count];
    left.costNanos -= sums.costNanos;
    left.dailyCalls = left.dailyCalls.map((calls, i) => calls - (sums.dailyCalls[i] ?? 0));
    left.dailyTokens = left.dailyTokens.map((tokens, i) => tokens - (sums.dailyTokens[i] ?? 0));
    left.dailyNanos = left.dailyNanos.map((nanos, i) => nanos - (sums.dailyNanos[i] ?? 0n));
  }
  return left;
}

/** Sums without a cost if none of the calls has one. */
const reportedSumsOf = ({ costNanos, dailyNanos, pricedCalls, ...sums }: PeriodSums) => ({
  ...sums,
  ...(pricedCalls > 0 && { cost: decimalOf(costNanos), dailyCosts: dailyNanos.map(decimalOf) }),
  unpricedCalls: sums.calls - pricedCalls,
});
