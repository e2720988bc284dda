import { findPeople, type Person } from "./person.ts";
import { type Db, firstRow, returnsRow } from "./statement.ts";

/** Sums of calls. */
export type CallSums = {
  calls: number;
  inputTokens: number;
  outputTokens: number;
  estimatedCalls: number;
  cachedInputTokens: number;
  reasoningTokens: number;
  /** In nano-units of the currency, as text. */
  costNanos: string;
  /** Number of calls with a cost. */
  pricedCalls: number;
};

/** Sums of a model's calls on a day (UTC). */
export type ModelDay = CallSums & { day: string; provider: string; model: string };

/** Sums of a model's calls in a day or hour, for an overview. */
export type ModelTotals = Omit<
  ModelDay,
  "estimatedCalls" | "cachedInputTokens" | "reasoningTokens"
>;

/** Whole days in UTC, both inclusive, such as `2026-11-21`. */
export type Days = { firstDay: string; lastDay: string };

export const SUMS = `sum(calls)::float8 as calls, sum(input_tokens)::float8 as "inputTokens",
  sum(output_tokens)::float8 as "outputTokens", sum(estimated_calls)::float8 as "estimatedCalls",
  coalesce(sum(cached_input_tokens), 0)::float8 as "cachedInputTokens",
  coalesce(sum(reasoning_tokens), 0)::float8 as "reasoningTokens", coalesce(sum(cost_nanos), 0)::text as "costNanos",
  coalesce(sum(priced_calls), 0)::float8 as "pricedCalls"`;
/** The columns that are added up. */
export const COUNTS = `calls, input_tokens, output_tokens, estimated_calls, cached_input_tokens, reasoning_tokens, cost_nanos,
  priced_calls`;
const DAY = `to_char(day, 'YYYY-MM-DD') as day`;
export const IN_PERIOD = "day between :firstDay::date and :lastDay::date";

/** Sums up the calls of all users by day, provider and model. */
export const sumModelDays = async (db: Db, days: Days): Promise<ModelDay[]> =>
  db.em.execute(
    `select ${DAY}, provider, model, ${SUMS} from (
       select day, provider, model, ${COUNTS} from ai_usage_models where ${IN_PERIOD}
       ${(await hasUnsummed(db)) ? UNSUMMED_MODELS : ""}) as usage
     group by day, provider, model having sum(calls) > 0`, // calls may have moved to another model
    days,
  );

/**
 * Left out once there are none: the planner would expect many, and compile its plan for a second.
 */
const UNSUMMED_MODELS = `union all
  select day, provider, model, ${COUNTS} from ai_usage_unsummed where ${IN_PERIOD}`;

/** Sums up the calls of one user by day, provider and model. */
export const sumModelDaysOf = (
  { em }: Db,
  { userId, ...days }: Days & { userId: string },
): Promise<ModelDay[]> =>
  em.execute(
    `select ${DAY}, provider, model, ${SUMS} from (
       select day, provider, model, ${COUNTS}
       from ai_usage_days where user_id = :userId and ${IN_PERIOD}
       union all
       select (created_at at time zone 'UTC')::date, provider, model, 1, input_tokens, output_tokens, estimated::int,
         cached_input_tokens, reasoning_tokens, cost_nanos, (cost_nanos is not null)::int
       from ai_usage where user_id = :userId and created_at >= :firstDay::date::timestamp at time zone 'UTC'
         and created_at < (:lastDay::date + 1)::timestamp at time zone 'UTC') as usage
     group by day, provider, model`,
    { userId, ...days },
  );

/** Sums of users by day, including calls that are not in the sums yet. */
export const USER_DAYS = `(select user_id, day, ${COUNTS} from ai_usage_users
  union all
  select user_id, day, ${COUNTS} from ai_usage_unsummed)`;

/** Whether calls from before the sums existed are still missing from them. */
export const hasUnsummed = (db: Db): Promise<boolean> =>
  returnsRow(db, "select 1 from ai_usage_summing where summed_from > '-infinity'");

/** The calls of a user on a day (UTC). */
export type UserDay = CallSums & { day: string; user: Person };

/** Sums up the calls of some users by day. Erased users are omitted. */
export async function sumUserDays(
  db: Db,
  { userIds, ...days }: Days & { userIds: string[] },
): Promise<UserDay[]> {
  const rows = await db.em.execute<(CallSums & { userId: string; day: string })[]>(
    `select user_id as "userId", ${DAY}, ${SUMS} from ${(await hasUnsummed(db)) ? USER_DAYS : "ai_usage_users"} as usage
     where user_id = any(array[:userIds]::uuid[]) and ${IN_PERIOD} group by day, user_id`,
    { userIds, ...days },
  );
  const people = await findPeople(db, userIds); // not a person in each of up to 36,700 rows
  return rows.flatMap(({ userId, ...sums }) => {
    const user = people.get(userId);
    return user ? [{ ...sums, user }] : [];
  });
}

/** Adds new amounts to an existing sum. */
const ADD = `calls = s.calls + excluded.calls, input_tokens = s.input_tokens + excluded.input_tokens,
  output_tokens = s.output_tokens + excluded.output_tokens, estimated_calls = s.estimated_calls + excluded.estimated_calls,
  cached_input_tokens = s.cached_input_tokens + excluded.cached_input_tokens,
  reasoning_tokens = s.reasoning_tokens + excluded.reasoning_tokens,
  cost_nanos = s.cost_nanos + excluded.cost_nanos, priced_calls = s.priced_calls + excluded.priced_calls`;

/**
 * Adds a day of calls from before the sums existed, the latest day first. Writers of usage wait
 * until it is added, so that no change of a call is missed.
 * @returns whether there may be more
 * @throws Error if it times out waiting for a lock: see `isLockTimeout`. This transaction and the
 * erasure of a user may wait for each other.
 */
export async function sumUpEarlierDay(db: Db): Promise<boolean> {
  if (!(await hasUnsummed(db))) return false;
  return db.em.transactional(async () => {
    await db.em.execute("set local lock_timeout = '500ms'"); // less than PostgreSQL's deadlock_timeout
    await db.em.execute("lock table ai_usage in share row exclusive mode");
    const next = await firstRow<{ day: string | null }>(
      db,
      `select to_char(greatest(
           (select (max(created_at) at time zone 'UTC')::date from ai_usage where created_at < summed_from),
           (select max(day) from ai_usage_days where day < summed_from at time zone 'UTC')), 'YYYY-MM-DD') as day
       from ai_usage_summing where summed_from > '-infinity' for update`,
    );
    if (!next) return false;
    const { day } = next;
    if (day === null) {
      await db.em.execute("update ai_usage_summing set summed_from = '-infinity'");
      return false;
    }
    const calls = `(
      select user_id, day, provider, model, ${COUNTS}
      from ai_usage_days where day = :day::date
      union all
      select user_id, :day::date, provider, model, 1, input_tokens, output_tokens, estimated::int, cached_input_tokens,
        reasoning_tokens, cost_nanos, (cost_nanos is not null)::int
      from ai_usage
      where created_at >= :day::timestamp at time zone 'UTC' and created_at < least(
        (:day::date + 1)::timestamp at time zone 'UTC', (select summed_from from ai_usage_summing))) as earlier`;
    const sums = `sum(calls), sum(input_tokens), sum(output_tokens), sum(estimated_calls),
      coalesce(sum(cached_input_tokens), 0), coalesce(sum(reasoning_tokens), 0), coalesce(sum(cost_nanos), 0),
      coalesce(sum(priced_calls), 0)`;
    await db.em.execute(
      `insert into ai_usage_users as s (user_id, day, ${COUNTS}) select user_id, day, ${sums} from ${calls} group by 1, 2 order by 1, 2
       on conflict on constraint ai_usage_users_key do update set ${ADD}`,
      { day },
    );
    await db.em.execute(
      `insert into ai_usage_models as s (day, provider, model, ${COUNTS}) select day, provider, model, ${sums} from ${calls} group by 1, 2, 3 order by 1, 2, 3
       on conflict on constraint ai_usage_models_key do update set ${ADD}`,
      { day },
    );
    await db.em.execute(
      "update ai_usage_summing set summed_from = :day::timestamp at time zone 'UTC'",
      { day },
    );
    return true;
  });
}
