import type { Db, HotDb, Statement } from "./store.ts";

/** A row of `ai_usage`, by the names of its columns. */
export type UsageRow = {
  id: string;
  user_id: string;
  provider: string;
  model: string;
  /** `running`, `completed`, `cancelled`, `failed`, or how the provider failed. */
  outcome: string;
  input_tokens: number;
  output_tokens: number;
  estimated: boolean;
  latency_ms: number | null;
  first_chunk_ms: number | null;
  created_at: Date;
};

/**
 * The user may have been erased meanwhile; the usage stays. `for key share` waits for an erasure in progress before any row
 * is locked, because the erasure waits for the rows.
 */
const UPSERT_USAGE: Statement = {
  name: "upsert_usage",
  text: `
  with given as (
    select * from jsonb_to_recordset($1::jsonb) as t (id uuid, user_id uuid, provider text, model text, outcome text,
      input_tokens int, output_tokens int, estimated boolean, latency_ms int, first_chunk_ms int,
      created_at timestamptz)),
  owners as (select id from users where id in (select user_id from given) for key share)
  insert into ai_usage (id, user_id, provider, model, outcome, input_tokens, output_tokens, estimated, latency_ms,
                        first_chunk_ms, created_at)
  select given.id, owners.id, given.provider, given.model, given.outcome, given.input_tokens, given.output_tokens,
         given.estimated, given.latency_ms, given.first_chunk_ms, given.created_at
  from given left join owners on owners.id = given.user_id
  on conflict (id) do update set
    outcome = excluded.outcome, input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
    estimated = excluded.estimated, latency_ms = excluded.latency_ms, first_chunk_ms = excluded.first_chunk_ms`,
};

/** Inserts rows, or brings them up to date. */
export async function upsertUsage({ query }: HotDb, rows: readonly UsageRow[]): Promise<void> {
  await query(UPSERT_USAGE, [JSON.stringify(rows)]);
}

/** The usage of one model by one user on one UTC day. */
export type DailyUsage = {
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

/** Sums up the usage of one user, or of all, newest day first. `from` inclusive, `to` exclusive. */
export async function sumUsageByDay(
  { em }: Db,
  { userId = null, from, to = null }: { userId?: string | null; from: Date; to?: Date | null },
  { limit, offset }: { limit: number; offset: number },
): Promise<DailyUsage[]> {
  const rows = await em.execute<(Omit<DailyUsage, "userId"> & { userId: string | null })[]>(
    `select to_char(created_at at time zone 'UTC', 'YYYY-MM-DD') as day, user_id as "userId", provider, model,
            count(*)::int as calls, sum(input_tokens)::float8 as "inputTokens",
            sum(output_tokens)::float8 as "outputTokens", (count(*) filter (where estimated))::int as "estimatedCalls"
     from ai_usage
     where (?::uuid is null or user_id = ?::uuid) and created_at >= ? and created_at < coalesce(?::timestamptz, 'infinity')
     group by 1, 2, 3, 4
     order by 1 desc, 2, 3, 4
     limit ? offset ?`,
    [userId, userId, from, to, limit, offset],
  );
  return rows.map(({ userId: owner, ...row }) => ({ ...row, ...(owner !== null && { userId: owner }) }));
}

/** Removes a user from at most `limit` usage rows, which stay for the statistics. @returns how many. */
export async function anonymizeUsage({ em }: Db, userId: string, limit: number): Promise<number> {
  const { affectedRows } = await em.execute<{ affectedRows: number }>(
    "update ai_usage set user_id = null where id in (select id from ai_usage where user_id = ? limit ?)",
    [userId, limit],
    "run",
  );
  return affectedRows;
}
