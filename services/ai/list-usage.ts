import type { Message } from "@bufbuild/protobuf";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { ListAllUsageRequest, UsageDay } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import type { UserCall } from "../call.ts";
import { decimalOf } from "../platform/money.ts";
import { invalid } from "../platform/rpc/errors.ts";
import { findPeople, type Person } from "../store/person.ts";
import {
  firstDetailedDay,
  startOfDay,
  sumUsageByDay,
  type UsageGrouping,
  type UsageSum,
} from "../store/usage.ts";
import type { AiContext } from "./context.ts";

/** Usage of one user, or of all. `from` is inclusive, `to` exclusive, `page` starts at 1. */
export type UsageFilter = Omit<ListAllUsageRequest, keyof Message>;

/** One user's usage of one model on one day (UTC). */
export type DailyUsage = Omit<UsageDay, keyof Message | "user"> & { user?: Person };

/** Rows per page: 0.4 MB. */
const PAGE_ROWS = 1_000;
const DAY_MS = 86_400_000;
/** Days that the response covers if the request has no `from`. */
const DEFAULT_DAYS = 31;
/** Maximum number of days that the response covers. */
const MAX_DAYS = 366;

export type ListDeps = Pick<UserCall, "em" | "clock" | "config"> & {
  ai: Pick<AiContext, "usage"> & { catalogue: Pick<AiContext["catalogue"], "currency"> };
};

/**
 * Sums up usage by day, user, provider and model, newest day first. A bound that lies in the time
 * of which only daily sums are kept is moved to the start of its day.
 * @param rows per page
 * @throws ServiceError VALIDATION_FAILED
 */
export async function listUsage(
  { em, clock, config, ai }: ListDeps,
  { userId, page = 1, groupBy, ...span }: UsageFilter,
  rows = PAGE_ROWS,
): Promise<DailyUsage[]> {
  const now = clock.now();
  const from = span.from && timestampDate(span.from);
  const to = span.to && timestampDate(span.to);
  const daysBefore = (days: number) => new Date((to ?? now).getTime() - days * DAY_MS);
  if (from && from < daysBefore(MAX_DAYS))
    throw invalid("from", `must be at most ${MAX_DAYS} days before the end`);
  await ai.usage.flush();
  const firstDay = firstDetailedDay(now, config.usageRetentionMs);
  const bound = (time: Date) => (time < firstDay ? startOfDay(time) : time);
  const end = to ?? daysBefore(-1); // the clocks of replicas differ
  const filter = {
    userId: userId ?? null,
    from: bound(from ?? daysBefore(DEFAULT_DAYS)),
    to: bound(end),
    groupBy: groupBy as UsageGrouping,
  };
  const sums = await sumUsageByDay({ em }, filter, {
    limit: rows,
    offset: (page - 1) * rows,
  });
  return sums.map((sum) => dailyUsageOf(sum, ai.catalogue.currency));
}

/**
 * A sum with its cost as money, if any of its calls has one. A table has 50,000, so no object
 * is copied.
 */
function dailyUsageOf(sum: UsageSum, currency: string): DailyUsage {
  const usage: DailyUsage = {
    day: sum.day,
    provider: sum.provider,
    model: sum.model,
    calls: sum.calls,
    inputTokens: sum.inputTokens,
    outputTokens: sum.outputTokens,
    estimatedCalls: sum.estimatedCalls,
    cachedInputTokens: sum.cachedInputTokens,
    reasoningTokens: sum.reasoningTokens,
    unpricedCalls: sum.calls - sum.pricedCalls,
  };
  if (sum.userId !== null) usage.userId = sum.userId;
  if (sum.apiKeyId !== null) usage.apiKeyId = sum.apiKeyId;
  if (sum.alias !== null) usage.alias = sum.alias;
  if (sum.pricedCalls > 0) {
    usage.cost = decimalOf(BigInt(sum.costNanos));
    usage.currency = currency;
  }
  return usage;
}

/**
 * The same, each row with its user.
 * @throws ServiceError VALIDATION_FAILED
 */
export async function listUsageOfAll(
  call: ListDeps,
  filter: UsageFilter,
  rows?: number,
): Promise<DailyUsage[]> {
  const usage = await listUsage(call, filter, rows);
  const people = await findPeople(
    call,
    usage.flatMap(({ userId }) => userId ?? []),
  );
  for (const row of usage) {
    const user = people.get(row.userId ?? "");
    if (user) row.user = user;
  }
  return usage;
}
