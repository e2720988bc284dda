import type { SignedInCall } from "../call.ts";
import { invalid } from "../platform/errors.ts";
import type { AiContext } from "./context.ts";

/** What one user asked of one model on one UTC day. */
export type UsageOfDay = {
  day: string;
  /** Absent once the account is erased. */
  userId?: string;
  provider: string;
  model: string;
  calls: number;
  inputTokens: number;
  outputTokens: number;
  estimatedCalls: number;
};

/** Which usage. */
export type UsageFilter = {
  /** Whose; everybody's when undefined. */
  userId?: string | undefined;
  /** Not before. */
  from?: Date | undefined;
  /** Before. */
  to?: Date | undefined;
  /** 1-based. */
  page?: number | undefined;
};

/** Lines of one page. */
const PAGE_LINES = 5_000;
const DAY_MS = 86_400_000;
/** How far back an answer reaches where the request does not say, and at most. */
const DEFAULT_DAYS = 31;
const MAX_DAYS = 366;

/** Sums up usage by day, user, provider and model, newest day first. @throws ServiceError VALIDATION_FAILED */
export async function listUsage(
  { em, clock, ai }: Pick<SignedInCall, "em" | "clock"> & { ai: Pick<AiContext, "usage"> },
  { userId, from, to, page = 1 }: UsageFilter,
): Promise<UsageOfDay[]> {
  const daysBefore = (days: number) => new Date((to ?? clock.now()).getTime() - days * DAY_MS);
  if (from && from < daysBefore(MAX_DAYS)) throw invalid("from", `must lie at most ${MAX_DAYS} days before the end`);
  await ai.usage.flush();
  const rows = await em.execute<(Omit<UsageOfDay, "userId"> & { userId: string | null })[]>(
    `select to_char(created_at at time zone 'UTC', 'YYYY-MM-DD') as day, user_id as "userId", provider, model,
            count(*)::int as calls, sum(input_tokens)::float8 as "inputTokens",
            sum(output_tokens)::float8 as "outputTokens", (count(*) filter (where estimated))::int as "estimatedCalls"
     from ai_usage
     where (?::uuid is null or user_id = ?::uuid) and created_at >= ? and created_at < coalesce(?::timestamptz, 'infinity')
     group by 1, 2, 3, 4
     order by 1 desc, 2, 3, 4
     limit ? offset ?`,
    [userId ?? null, userId ?? null, from ?? daysBefore(DEFAULT_DAYS), to ?? null, PAGE_LINES, (page - 1) * PAGE_LINES],
  );
  return rows.map(({ userId: whose, ...row }) => ({ ...row, ...(whose !== null && { userId: whose }) }));
}
