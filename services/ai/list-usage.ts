import type { Message } from "@bufbuild/protobuf";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { ListAllUsageRequest } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import type { UserCall } from "../call.ts";
import { invalid } from "../platform/rpc/errors.ts";
import { type DailyUsage, firstDetailedDay, startOfDay, sumUsageByDay } from "../store/usage.ts";
import type { AiContext } from "./context.ts";

/** Usage of one user, or of all. `from` is inclusive, `to` exclusive, `page` starts at 1. */
export type UsageFilter = Omit<ListAllUsageRequest, keyof Message>;

/** Rows per page. */
const PAGE_ROWS = 5_000;
const DAY_MS = 86_400_000;
/** Days that the response covers if the request has no `from`. */
const DEFAULT_DAYS = 31;
/** Maximum number of days that the response covers. */
const MAX_DAYS = 366;

/**
 * Sums up usage by day, user, provider and model, newest day first. A bound that lies in the time
 * of which only daily sums are kept is moved to the start of its day.
 * @throws ServiceError VALIDATION_FAILED
 */
export async function listUsage(
  {
    em,
    clock,
    config,
    ai,
  }: Pick<UserCall, "em" | "clock" | "config"> & { ai: Pick<AiContext, "usage"> },
  { userId, page = 1, groupBy, ...span }: UsageFilter,
): Promise<DailyUsage[]> {
  const now = clock.now();
  const from = span.from && timestampDate(span.from);
  const to = span.to && timestampDate(span.to);
  const daysBefore = (days: number) => new Date((to ?? now).getTime() - days * DAY_MS);
  if (from && from < daysBefore(MAX_DAYS))
    throw invalid("from", `must lie at most ${MAX_DAYS} days before the end`);
  await ai.usage.flush();
  const firstDay = firstDetailedDay(now, config.usageRetentionMs);
  const bound = (time: Date) => (time < firstDay ? startOfDay(time) : time);
  const end = to ?? daysBefore(-1); // the clocks of replicas differ
  const filter = {
    userId: userId ?? null,
    from: bound(from ?? daysBefore(DEFAULT_DAYS)),
    to: bound(end),
    byKey: groupBy === "key",
  };
  return sumUsageByDay({ em }, filter, { limit: PAGE_ROWS, offset: (page - 1) * PAGE_ROWS });
}
