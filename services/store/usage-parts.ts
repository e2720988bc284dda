import { type Person, personColumn } from "./person.ts";
import { type Db, firstRow, type Values } from "./statement.ts";
import { type CallSums, COUNTS, type Days, IN_PERIOD, SUMS } from "./usage-sums.ts";

/** What calls had in common, and their sums by day. */
export type PartDay = CallSums & {
  day: string;
  /** Id of the API key, or name of the alias. */
  part: string;
  /** Name of the API key; null once it is deleted. */
  name: string | null;
  /** Owner of the API key. */
  user: Person | null;
};

/** Where calls have an API key or an alias, and where the sums of days that are over have it. */
const PARTS = {
  key: { column: "api_key_id", table: "ai_usage_keys" },
  alias: { column: "alias", table: "ai_usage_aliases" },
};

/** Sums of calls, as columns of `COUNTS`. */
const CALL_SUMS = `count(*) as calls, sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens,
  sum(estimated::int) as estimated_calls, coalesce(sum(cached_input_tokens), 0) as cached_input_tokens,
  coalesce(sum(reasoning_tokens), 0) as reasoning_tokens, coalesce(sum(cost_nanos), 0) as cost_nanos,
  count(cost_nanos) as priced_calls`;

/** Condition for calls on a day. */
const callsOn = (day: string) =>
  `created_at >= ${day}::timestamp at time zone 'UTC' and created_at < (${day} + 1)::timestamp at time zone 'UTC'`;

/**
 * Sums up the calls of the API keys, or aliases, with the most tokens, by day. Days that are over
 * are read from their sums, unless a call has changed since. Those of the other days, and of a
 * single user, are added up. Daily totals have neither.
 */
export const sumPartDays = (
  { em }: Db,
  { by, ...values }: Days & { by: "key" | "alias"; userId: string | null; limit: number },
): Promise<PartDay[]> => {
  const { column, table } = PARTS[by];
  const ofUser = values.userId !== null;
  return em.execute(
    `with closed as materialized (
       select day from ai_usage_closed_days c
       join (select day, version from ai_usage_day_versions where ${IN_PERIOD}) as v using (day)
       where c.version = v.version ${ofUser ? "and false" : ""}),
     open as materialized (
       select d.day, sums.* from (select generate_series(:firstDay::date, :lastDay::date, '1 day')::date as day) as d
       cross join lateral (
         select ${column} as part, ${CALL_SUMS} from ai_usage
         where ${callsOn("d.day")} and ${column} is not null ${ofUser ? "and user_id = :userId" : ""} group by 1) as sums
       where d.day not in (select day from closed)),
     top as materialized (
       select part from (
         select ${column} as part, calls, input_tokens, output_tokens from ${table} where day in (select day from closed)
         union all select part, calls, input_tokens, output_tokens from open) as usage
       group by part order by sum(input_tokens + output_tokens) desc, sum(calls) desc, part limit :limit)
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
 * The latest day whose calls are not summed up by API key and alias, or have changed since. None
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
 * Sums up the calls of one of several days by API key and alias, the latest first.
 * @returns whether there may be more
 * @throws Error if another process does the same, or if it times out: see `isLockTimeout`. An
 * erasure of a user may wait for this statement, and this statement for the user.
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
      "insert into ai_usage_closed_days (day, version) values (:day, :version)",
      open,
    );
    return true;
  });
}

/** Deletes the sums by API key and alias of days of which only daily totals are kept. */
export const forgetClosedDays = (db: Db, firstDay: Date): Promise<void> =>
  db.em.transactional(() =>
    deleteDays(db, "day < (:firstDay::timestamptz at time zone 'UTC')::date", { firstDay }),
  );

async function deleteDays({ em }: Db, condition: string, values: Values): Promise<void> {
  for (const table of ["ai_usage_keys", "ai_usage_aliases", "ai_usage_closed_days"])
    await em.execute(`delete from ${table} where ${condition}`, values);
}
