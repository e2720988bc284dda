import type { SignedInCall } from "../call.ts";
import type { Ai } from "./ai.ts";

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

/** Lines of one answer; the newest ones are kept. */
const MAX_LINES = 5_000;

/** Sums up usage by day, user, provider and model, newest day first. @param userId whose; everybody's when undefined */
export async function listUsage(
  { em, ai }: Pick<SignedInCall, "em"> & { ai: Pick<Ai, "usage"> },
  userId: string | undefined,
): Promise<UsageOfDay[]> {
  await ai.usage.flush();
  const rows = await em.execute<(Omit<UsageOfDay, "userId"> & { userId: string | null })[]>(
    `select to_char(created_at at time zone 'UTC', 'YYYY-MM-DD') as day, user_id as "userId", provider, model,
            count(*)::int as calls, sum(input_tokens)::float8 as "inputTokens",
            sum(output_tokens)::float8 as "outputTokens", (count(*) filter (where estimated))::int as "estimatedCalls"
     from ai_usage
     where ?::uuid is null or user_id = ?::uuid
     group by 1, 2, 3, 4
     order by 1 desc, 2, 3, 4
     limit ?`,
    [userId ?? null, userId ?? null, MAX_LINES],
  );
  return rows.map(({ userId: whose, ...row }) => ({ ...row, ...(whose !== null && { userId: whose }) }));
}
