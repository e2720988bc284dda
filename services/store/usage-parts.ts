import { type Person, personColumn } from "./person.ts";
import { type Db, firstRow, HOUR, HOUR_TEXT, type Values } from "./statement.ts";
import {
  type CallSums,
  COUNTS,
  type Days,
  IN_PERIOD,
  type ModelTotals,
  SUMS,
} from "./usage-sums.ts";

/** The calls of an API key or alias on a day (UTC). */
export type PartDay = CallSums & {
  day: string;
  /** Id of the API key, or name of the alias. */
  part: string;
  /** Name of the API key; null once it is deleted. */
  name: string | null;
  /** Owner of the API key. */
  user: Person | null;
};

/**
 * Where calls have an API key or an alias, and where the sums of days that are over have it. There
 * are many keys, so their sums of closed periods are used too.
 */
const PARTS = {
  key: {
    column: "api_key_id",
    table: "ai_usage_keys",
    ofPeriod: `union all
      select api_key_id, calls, tokens from ai_usage_key_periods join period using (first_day, last_day)`,
  },
  alias: { column: "alias", table: "ai_usage_aliases", ofPeriod: "" },
};

/** The version of several days: see `ai_usage_day_versions`. */
const VERSION = "md5(string_agg(version, ' ' order by day))";

/** Sums of calls, as columns of `COUNTS`. */
const CALL_SUMS = `count(*) as calls, sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens,
  sum(estimated::int) as estimated_calls, coalesce(sum(cached_input_tokens), 0) as cached_input_tokens,
  coalesce(sum(reasoning_tokens), 0) as reasoning_tokens, coalesce(sum(cost_nanos), 0) as cost_nanos,
  count(cost_nanos) as priced_calls`;

/** Condition for calls on a day. */
const callsOn = (day: string) =>
  `created_at >= ${day}::timestamp at time zone 'UTC' and created_at < (${day} + 1)::timestamp at time zone 'UTC'`;

/** SQL for the days of the period whose sums count, and their versions. */
const CLOSED_DAYS = `select day, v.version from ai_usage_closed_days c
  join (select day, version from ai_usage_day_versions where ${IN_PERIOD}) as v using (day) where c.version = v.version`;

/** Columns of `ai_usage_hours` that are added up. */
const HOUR_COUNTS = "calls, input_tokens, output_tokens, cost_nanos, priced_calls";
const HOUR_SUMS = `count(*) as calls, sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens,
  coalesce(sum(cost_nanos), 0) as cost_nanos, count(cost_nanos) as priced_calls`;

/**
 * Sums up the calls of all users by hour, provider and model. `day` is the start of the hour. Days
 * that are over are read from their sums, unless a call has changed since. The calls of other days
 * are added up.
 */
export const sumModelHours = ({ em }: Db, days: Days): Promise<ModelTotals[]> =>
  em.execute(
    `with closed as materialized (${CLOSED_DAYS})
     select ${HOUR_TEXT} as day, provider, model, calls::float8 as calls, input_tokens::float8 as "inputTokens",
       output_tokens::float8 as "outputTokens", cost_nanos::text as "costNanos", priced_calls::float8 as "pricedCalls"
     from (
       select hour, provider, model, ${HOUR_COUNTS}
       from ai_usage_hours where day in (select day from closed)
       union all
       select h.hour, sums.* from (select generate_series(:firstDay::date, :lastDay::date, '1 day')::date as day) as d
       cross join lateral (select generate_series(d.day::timestamp, d.day + interval '23 hours', '1 hour') as hour) as h
       cross join lateral ( -- an hour at a time, so that nothing is sorted
         select provider, model, ${HOUR_SUMS} from ai_usage
         where created_at >= h.hour at time zone 'UTC' and created_at < (h.hour + interval '1 hour') at time zone 'UTC'
         group by 1, 2) as sums
       where d.day not in (select day from closed)) as hours`,
    days,
  );

/**
 * Sums up the calls of the API keys or aliases with the most tokens, by day. Closed days are read
 * from their sums, unless a call has changed since. The calls of other days, and those of a single
 * user, are summed up. Daily totals have neither a key nor an alias.
 */
export const sumPartDays = (
  { em }: Db,
  { by, ...values }: Days & { by: "key" | "alias"; userId: string | null; limit: number },
): Promise<PartDay[]> => {
  const { column, table, ofPeriod } = PARTS[by];
  const ofUser = values.userId !== null;
  return em.execute(
    `with closed as materialized (
       ${CLOSED_DAYS} ${ofUser ? "and false" : ""}),
     open as materialized (
       select d.day, sums.* from (select generate_series(:firstDay::date, :lastDay::date, '1 day')::date as day) as d
       cross join lateral (
         select ${column} as part, ${CALL_SUMS} from ai_usage
         where ${callsOn("d.day")} and ${column} is not null ${ofUser ? "and user_id = :userId" : ""} group by 1) as sums
       where d.day not in (select day from closed)),
     period as materialized (
       select first_day, last_day from ai_usage_closed_periods p
       where ${ofPeriod !== ""} and first_day >= :firstDay::date and last_day <= :lastDay::date
         and version = (select ${VERSION} from closed where day between p.first_day and p.last_day)
       order by last_day - first_day desc limit 1),
     top as materialized (
       select part from (
         select ${column} as part, calls, input_tokens + output_tokens as tokens from ${table}
         where day in (select day from closed left join period on day between first_day and last_day where first_day is null)
         ${ofPeriod}
         union all select part, calls, input_tokens + output_tokens from open) as usage
       group by part order by sum(tokens) desc, sum(calls) desc, part limit :limit)
     select to_char(s.day, 'YYYY-MM-DD') as day, s.part::text as part, s.calls, s."inputTokens", s."outputTokens",
       s."estimatedCalls", s."cachedInputTokens", s."reasoningTokens", s."costNanos", s."pricedCalls",
       k.name, ${personColumn("u", "user")}
     from (
       select day, part, ${SUMS} from (
         select day, ${column} as part, ${COUNTS} from ${table}
         where ${column} in (select part from top) and day in (select day from closed)
         union all select day, part, ${COUNTS} from open where part in (select part from top)) as usage
       group by day, part) as s
     left join api_keys k on ${by === "key" ? "k.id = s.part" : "false"} left join users u on u.id = k.user_id`,
    values,
  );
};

/** A day of calls and its version: see `ai_usage_day_versions`. */
export type DayVersion = { day: string; version: string };

/**
 * The latest day whose calls are not summed up by API key, alias and hour, or have changed since. None
 * while there are calls that are in no sums: their changes would not change the version.
 */
const findOpenDay = (db: Db, days: Days) =>
  firstRow<DayVersion>(
    db,
    `select to_char(v.day, 'YYYY-MM-DD') as day, v.version
     from (select day, version from ai_usage_day_versions where ${IN_PERIOD}) as v
     left join ai_usage_closed_days c using (day)
     where v.version is distinct from c.version and exists (select from ai_usage_summing where summed_from = '-infinity')
     order by v.day desc limit 1`,
    days,
  );

/**
 * Sums up the calls of one of several days by API key, alias and hour, the latest first.
 * @returns whether there may be more
 * @throws Error if another process is closing days, or if it times out waiting for a lock: see
 * `isLockTimeout`. This transaction and the erasure of a user may wait for each other.
 */
export async function closeDay(db: Db, days: Days): Promise<boolean> {
  if (!(await findOpenDay(db, days))) return false;
  const { em } = db;
  return em.transactional(async () => {
    await em.execute("set local lock_timeout = '500ms'"); // less than PostgreSQL's deadlock_timeout
    await em.execute("lock table ai_usage_closed_days in share row exclusive mode nowait");
    const open = await findOpenDay(db, days); // read before its calls: if one changes in between, the day is open
    if (!open) return false;
    await deleteDays(db, "day = :day::date", open);
    await em.execute(
      `insert into ai_usage_keys (api_key_id, user_id, day, ${COUNTS})
       select api_key_id, user_id, :day::date, ${CALL_SUMS} from ai_usage
       where ${callsOn(":day::date")} and api_key_id is not null group by 1, 2 order by 2`,
      open,
    );
    await em.execute(
      `insert into ai_usage_aliases (alias, day, ${COUNTS})
       select alias, :day::date, ${CALL_SUMS} from ai_usage
       where ${callsOn(":day::date")} and alias is not null group by 1`,
      open,
    );
    await em.execute(
      `insert into ai_usage_hours (day, hour, provider, model, ${HOUR_COUNTS})
       select :day::date, ${HOUR}, provider, model, ${HOUR_SUMS} from ai_usage
       where ${callsOn(":day::date")} group by 2, 3, 4`,
      open,
    );
    await em.execute(
      "insert into ai_usage_closed_days (day, version) values (:day, :version)",
      open,
    );
    return true;
  });
}

/**
 * Sums up the closed days of a period by API key, unless that has been done and no day has changed
 * since. Sums of periods that end earlier are deleted.
 * @throws Error if another process does the same, or if it times out waiting for a lock: see
 * `isLockTimeout`. This transaction and the erasure of a user may wait for each other.
 */
export async function closePeriod(db: Db, period: Days): Promise<void> {
  if (!(await findPeriodVersion(db, period))) return;
  const { em } = db;
  await em.transactional(async () => {
    await em.execute("set local lock_timeout = '500ms'"); // less than PostgreSQL's deadlock_timeout
    await em.execute("lock table ai_usage_closed_periods in share row exclusive mode nowait");
    const version = await findPeriodVersion(db, period); // read before its days: if one changes in between, the period is open
    if (!version) return;
    const values = { ...period, ...version };
    await em.execute(
      `delete from ai_usage_closed_periods
       where last_day < :lastDay::date or (first_day = :firstDay::date and last_day = :lastDay::date)`,
      values,
    );
    await em.execute(
      "insert into ai_usage_closed_periods (first_day, last_day, version) values (:firstDay, :lastDay, :version)",
      values,
    );
    await em.execute(
      `insert into ai_usage_key_periods (api_key_id, user_id, first_day, last_day, tokens, calls)
       select api_key_id, user_id, :firstDay::date, :lastDay::date, sum(input_tokens + output_tokens), sum(calls)
       from ai_usage_keys where ${IN_PERIOD} group by 1, 2 order by 2`,
      values,
    );
  });
}

/** The version of a period whose days are all closed, unless its sums have this version. */
const findPeriodVersion = (db: Db, period: Days) =>
  firstRow<{ version: string }>(
    db,
    `select version from (
       select ${VERSION} as version from (
         select v.day, v.version, c.day as closed from ai_usage_day_versions v left join ai_usage_closed_days c using (day, version)
         where ${IN_PERIOD}) as days
       having count(*) = count(closed)) as current
     where version is not null and version is distinct from (
       select version from ai_usage_closed_periods where first_day = :firstDay::date and last_day = :lastDay::date)`,
    period,
  );

/** What is known of the calls of closed days. */
export const OF_CLOSED_DAYS = [
  ...["ai_usage_keys", "ai_usage_aliases", "ai_usage_hours", "ai_usage_closed_days"],
];

/** Deletes the sums by API key, alias and hour of days of which only daily totals are kept. */
export const forgetClosedDays = (db: Db, firstDay: Date): Promise<void> =>
  db.em.transactional(async () => {
    const day = "(:firstDay::timestamptz at time zone 'UTC')::date";
    await deleteDays(db, `day < ${day}`, { firstDay });
    await db.em.execute(`delete from ai_usage_closed_periods where first_day < ${day}`, {
      firstDay,
    });
  });

async function deleteDays({ em }: Db, condition: string, values: Values): Promise<void> {
  for (const table of OF_CLOSED_DAYS)
    await em.execute(`delete from ${table} where ${condition}`, values);
}
