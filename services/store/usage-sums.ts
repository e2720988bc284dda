import { type Person, personColumn } from "./person.ts";
import type { Db } from "./statement.ts";

/** Sums of calls. */
export type CallSums = {
  calls: number;
  inputTokens: number;
  outputTokens: number;
  estimatedCalls: number;
};

/** The calls of a model on a day (UTC). */
export type ModelDay = CallSums & { day: string; provider: string; model: string };

/** Whole days in UTC, both inclusive, such as `2026-11-21`. */
export type Days = { firstDay: string; lastDay: string };

const SUMS = `sum(calls)::float8 as calls, sum(input_tokens)::float8 as "inputTokens",
  sum(output_tokens)::float8 as "outputTokens", sum(estimated_calls)::float8 as "estimatedCalls"`;
const DAY = `to_char(day, 'YYYY-MM-DD') as day`;
const IN_PERIOD = "day between :firstDay::date and :lastDay::date";

/** Sums up the calls of all users by day, provider and model. */
export const sumModelDays = ({ em }: Db, days: Days): Promise<ModelDay[]> =>
  em.execute(
    `select ${DAY}, provider, model, ${SUMS} from ai_usage_models where ${IN_PERIOD} group by day, provider, model`,
    days,
  );

/** Sums up the calls of one user by day, provider and model. */
export const sumModelDaysOf = (
  { em }: Db,
  { userId, ...days }: Days & { userId: string },
): Promise<ModelDay[]> =>
  em.execute(
    `select ${DAY}, provider, model, ${SUMS} from (
       select day, provider, model, calls, input_tokens, output_tokens, estimated_calls
       from ai_usage_days where user_id = :userId and ${IN_PERIOD}
       union all
       select (created_at at time zone 'UTC')::date, provider, model, 1, input_tokens, output_tokens, estimated::int
       from ai_usage where user_id = :userId and created_at >= :firstDay::date::timestamp at time zone 'UTC'
         and created_at < (:lastDay::date + 1)::timestamp at time zone 'UTC') as usage
     group by day, provider, model`,
    { userId, ...days },
  );

/** A user and the tokens of the period. */
type TopUser = { userId: string; tokens: number };

/** How many users of each day are candidates per user to find, in the order of attempts. */
const DEPTHS = [5, 50];

/**
 * The users with the most tokens of a period, largest first. Adding up every user takes seconds for a
 * million of them. Therefore only the top users of each day are added up. A user who is on no day among
 * these has at most the sum of the last places, the bound: once enough candidates reach it, the answer is
 * exact (Fagin's threshold algorithm). Users who all use about the same are added up.
 */
export async function findTopUsers(
  db: Db,
  request: Days & { days: string[]; limit: number },
): Promise<TopUser[]> {
  for (const depth of DEPTHS) {
    const top = await findCandidates(db, { ...request, depth: depth * request.limit });
    if (top) return top;
  }
  return db.em.execute(
    `select user_id as "userId", sum(input_tokens + output_tokens)::float8 as tokens
     from ai_usage_users where ${IN_PERIOD} and user_id is not null
     group by user_id order by tokens desc, user_id limit :limit`,
    request,
  );
}

/** @returns undefined if users who are no candidates may have more tokens */
async function findCandidates(
  { em }: Db,
  request: Days & { days: string[]; limit: number; depth: number },
): Promise<TopUser[] | undefined> {
  const rows = await em.execute<(TopUser & { bound: number })[]>(
    `with tops as materialized (
       select d.day, t.user_id, t.tokens from unnest(array[:days]::date[]) as d (day)
       cross join lateral (
         select user_id, input_tokens + output_tokens as tokens from ai_usage_users
         where day = d.day and user_id is not null order by input_tokens + output_tokens desc limit :depth) as t),
     bound as (
       select coalesce(sum(lowest), 0)::float8 as bound from (
         select case when count(*) = :depth then min(tokens) else 0 end as lowest from tops group by day) as days)
     select c.user_id as "userId", s.tokens::float8 as tokens, bound
     from (select distinct user_id from tops) as c cross join bound
     cross join lateral (
       select sum(input_tokens + output_tokens) as tokens from ai_usage_users
       where user_id = c.user_id and ${IN_PERIOD}) as s
     order by s.tokens desc, c.user_id limit :limit`,
    request,
  );
  const bound = rows[0]?.bound ?? 0;
  const last = rows.length < request.limit ? undefined : rows.at(-1);
  return bound === 0 || (last && last.tokens >= bound) ? rows : undefined;
}

/** The calls of a user on a day (UTC). */
export type UserDay = CallSums & { day: string; user: Person };

/** Sums up the calls of some users by day. Erased users are left out. */
export const sumUserDays = (
  { em }: Db,
  { userIds, ...days }: Days & { userIds: string[] },
): Promise<UserDay[]> =>
  em.execute(
    `select ${DAY}, calls::float8 as calls, input_tokens::float8 as "inputTokens", output_tokens::float8 as "outputTokens",
       estimated_calls::float8 as "estimatedCalls", ${personColumn("u", "user")}
     from ai_usage_users s join users u on u.id = s.user_id where s.user_id = any(array[:userIds]::uuid[]) and ${IN_PERIOD}`,
    { userIds, ...days },
  );
