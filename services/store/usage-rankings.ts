import { isLockTimeout } from "./errors.ts";
import { type Db, firstRow, oneRow, returnsRow } from "./statement.ts";
import { type DayVersion, OF_CLOSED_DAYS } from "./usage-parts.ts";
import { type Days, hasUnsummed, IN_PERIOD, USER_DAYS } from "./usage-sums.ts";

/** A user and the tokens of a period. */
export type UserTokens = { userId: string; tokens: number };

/**
 * Number of users in a ranking. Even among a million users with similar usage, each of the ten
 * users with the most tokens of 30 days has several thousand more than the last one in the ranking.
 */
export const RANKED_USERS = 10_000;

/**
 * How far a search goes: rows that it reads of the lists of open days, and candidates that it adds up
 * at most. Usually a few users have much more than everybody else, and the first search finds them.
 * Beyond the second one, adding up everybody is not much slower.
 */
const SEARCHES = [
  { depth: 5_000, most: 5_000 },
  { depth: 100_000, most: 100_000 },
];

/** Tokens of candidate `c` in the period. */
const TOTAL = `select sum(input_tokens + output_tokens) as tokens from ai_usage_users
  where user_id = c.user_id and ${IN_PERIOD}`;

/**
 * The users with the most tokens of a period, largest first. A million users can't be added up in
 * 100 ms. Therefore a ranking is used that a job has made of days that are over: the one whose days
 * are nearly those of the period. The other days of the period are open: those that the ranking does
 * not cover, and those that have changed since. For each open day there is a list of the users with
 * the most tokens. So a user has at most
 *
 * - the tokens of the ranking, or what the last one in the ranking has, and
 * - of each open day the tokens of its list, or what the last one in the list has.
 *
 * The exact sums of some users who seem to have most show how many tokens a place needs. Whoever may
 * have as many is added up as well. A ranking may cover days outside of the period: then it says more
 * than a user has. Without a ranking, all days are open. Everybody is added up if users who are in no
 * ranking and in no list may have as many tokens, or if there are too many candidates.
 */
export async function findTopUsers(
  db: Db,
  request: Days & { limit: number },
): Promise<UserTokens[]> {
  if (!(await hasUnsummed(db))) {
    const top =
      (await search(db, request)) ??
      ((await rankPeriod(db, request)) && (await search(db, request)));
    if (top) return top;
  }
  return db.em.execute(
    `select user_id as "userId", sum(input_tokens + output_tokens)::float8 as tokens
     from ${USER_DAYS} as usage where ${IN_PERIOD} and user_id is not null
     group by user_id order by tokens desc, user_id limit :limit`,
    request,
  );
}

/** @returns undefined if not even the longest search goes far enough */
async function search(
  db: Db,
  request: Days & { limit: number },
): Promise<UserTokens[] | undefined> {
  for (const effort of SEARCHES) {
    const top = await findAmongCandidates(db, { ...request, ...effort });
    if (top) return top;
  }
}

/**
 * One statement, so that all of it sees the same calls. A day that a ranking lacks makes a search
 * about as long as three days that it has in addition.
 * @returns undefined if the search does not go far enough
 */
async function findAmongCandidates(
  { em }: Db,
  request: Days & { limit: number; depth: number; most: number },
): Promise<UserTokens[] | undefined> {
  const rows = await em.execute<(UserTokens & { isComplete: boolean })[]>(
    `with ranking as materialized (
       select first_day, last_day, others from ai_usage_rankings
       where first_day <= :lastDay::date and last_day >= :firstDay::date
       order by 3 * (greatest(first_day - :firstDay::date, 0) + greatest(:lastDay::date - last_day, 0))
         + greatest(:firstDay::date - first_day, 0) + greatest(last_day - :lastDay::date, 0)
       limit 1),
     open_days as materialized (
       select d.day, greatest(:depth::bigint / count(*) over (), :limit::bigint) as depth
       from (select generate_series(:firstDay::date, :lastDay::date, '1 day')::date as day) as d
       left join ranking r on d.day between r.first_day and r.last_day
       left join ai_usage_ranked_days k on k.day = d.day
       left join (select day, version from ai_usage_day_versions where ${IN_PERIOD}) as v on v.day = d.day
       where r.first_day is null or k.version is distinct from v.version),
     lists as materialized (
       select d.day, d.depth, t.user_id, t.tokens::float8 as tokens from open_days d cross join lateral (
         select user_id, input_tokens + output_tokens as tokens from ai_usage_users
         where day = d.day and user_id is not null order by input_tokens + output_tokens desc limit d.depth) as t),
     ends as materialized (
       select day, case when count(*) = max(depth) then min(tokens) else 0 end as tokens from lists group by day),
     seen as materialized (
       select user_id, max(ranked) as ranked, sum(listed) as listed, sum(above) as above from (
         select user_id, tokens::float8 as ranked, 0::float8 as listed, 0::float8 as above
         from ranking join ai_usage_ranked_users using (first_day, last_day)
         union all
         select l.user_id, null, l.tokens, l.tokens - e.tokens from lists l join ends e using (day)) as both_kinds
       group by user_id),
     sample as materialized (
       select user_id from seen order by coalesce(ranked, 0) + listed desc limit 2 * :limit),
     bounds as materialized (
       select s.floor, coalesce((select others from ranking), 0) as others, coalesce((select sum(tokens) from ends), 0) as ends
       from (
         select case when count(tokens) = :limit then min(tokens) else 0 end as floor from (
           select t.tokens from sample c cross join lateral (${TOTAL}) as t order by t.tokens desc nulls last limit :limit) as top) as s),
     candidates as materialized (
       select s.user_id from seen s cross join bounds b
       where b.floor >= b.others + b.ends and coalesce(s.ranked, b.others) + s.above + b.ends >= b.floor
       limit :most + 1),
     found as materialized (
       select floor >= others + ends and (select count(*) from candidates) <= :most as is_complete from bounds)
     select f.is_complete as "isComplete", top.user_id as "userId", top.tokens::float8 as tokens
     from found f left join lateral (
       select c.user_id, t.tokens from candidates c cross join lateral (${TOTAL}) as t
       where f.is_complete and t.tokens is not null order by t.tokens desc, c.user_id limit :limit) as top on true
     order by top.tokens desc, top.user_id`,
    request,
  );
  if (!rows[0]?.isComplete) return undefined;
  return rows.flatMap(({ userId, tokens }) => (userId ? [{ userId, tokens }] : []));
}

/** Rankings at the same time. Each has up to 10,000 rows, 2 MB. */
const MAX_RANKINGS = 30;

/**
 * Ranks the users of a period that was asked for, so that only the first request takes long. Days
 * after the latest ranking stay open. The ranking is kept until the job makes all of them again.
 * Nothing is ranked if another process makes rankings, or if a user is being erased.
 * @returns whether there is a further ranking
 */
async function rankPeriod({ em }: Db, period: Days): Promise<boolean> {
  try {
    return await em.transactional(async () => {
      await em.execute("set local lock_timeout = '500ms'"); // less than PostgreSQL's deadlock_timeout
      await em.execute("lock table ai_usage_rankings in share row exclusive mode"); // the job waits, so the versions of days stay
      const closed = await firstRow<Days>(
        { em },
        `select :firstDay::text as "firstDay", to_char(last_day, 'YYYY-MM-DD') as "lastDay" from (
           select least(:lastDay::date, max(last_day)) as last_day from ai_usage_rankings having count(*) < ${MAX_RANKINGS}) as latest
         where last_day >= :firstDay::date`,
        period,
      );
      if (!closed) return false;
      const { affectedRows } = await em.execute<{ affectedRows: number }>(
        `with sums as materialized (
           select user_id, sum(input_tokens + output_tokens)::bigint as tokens from ai_usage_users
           where ${IN_PERIOD} and user_id is not null group by user_id order by tokens desc limit ${RANKED_USERS}),
         ranking as (
           insert into ai_usage_rankings (first_day, last_day, others)
           select :firstDay::date, :lastDay::date, case when count(*) = ${RANKED_USERS} then min(tokens) else 0 end from sums
           on conflict do nothing returning first_day, last_day),
         days as (
           insert into ai_usage_ranked_days select day, version from ai_usage_day_versions
           where ${IN_PERIOD} and exists (select from ranking) on conflict do nothing)
         insert into ai_usage_ranked_users (user_id, first_day, last_day, tokens)
         select u.id, r.first_day, r.last_day, s.tokens
         from sums s join users u on u.id = s.user_id cross join ranking r order by u.id for key share of u`,
        closed,
        "run",
      );
      return affectedRows > 0;
    });
  } catch (error) {
    if (!isLockTimeout(error)) throw error;
    return false;
  }
}

/** Interval at which rankings are made again if one of their days has changed, in ms. */
const RANKING_INTERVAL_MS = 600_000;

/**
 * Claims the run that ranks the periods ending on a day, if they have no ranking or if a ranked day
 * has changed since. The claim expires after ten minutes, so that another process continues after a
 * crash.
 * @returns whether the caller has the claim
 */
export const claimRankings = (
  db: Db,
  { now, lastDay }: { now: Date; lastDay: string },
): Promise<boolean> =>
  returnsRow(
    db,
    `update ai_usage_summing set ranked_at = :now
     where summed_from = '-infinity' and exists (select from ai_usage_models where day <= :lastDay::date)
       and (ranked_at is null or ranked_at not between :since and :now)
       and (not exists (select from ai_usage_rankings where last_day = :lastDay::date)
         or exists (
           select from ai_usage_day_versions v left join ai_usage_ranked_days k using (day)
           where v.day between (select min(first_day) from ai_usage_rankings) and :lastDay::date
             and v.version is distinct from k.version))
     returning 1 as claimed`,
    { now, lastDay, since: new Date(now.getTime() - RANKING_INTERVAL_MS) },
  );

/** Reads the versions of days, to detect later whether the days have changed. */
export const readDayVersions = ({ em }: Db, days: Days): Promise<DayVersion[]> =>
  em.execute(
    `select to_char(day, 'YYYY-MM-DD') as day, version from ai_usage_day_versions where ${IN_PERIOD}`,
    days,
  );

/**
 * Finds the last user of a part. Parts are in the order of user ids.
 * @param after the last user of the previous part; null for the first part
 * @param rows number of rows in the part, one per user and day
 * @returns the id of the last user; null if fewer rows are left
 */
export const findPartEnd = async (
  db: Db,
  after: string | null,
  rows: number,
): Promise<string | null> => {
  const end = await oneRow<{ id: string | null }>(
    db,
    `select (select user_id from ai_usage_users where ${AFTER} order by user_id offset :rows limit 1) as id`,
    { after, rows },
  );
  return end.id;
};

const AFTER = "user_id is not null and (:after::uuid is null or user_id > :after::uuid)";

/** The tokens of a user in several periods; null for a period without calls. */
export type RankedUser = { userId: string; tokens: (number | null)[] };

/**
 * Sums up a part of the users in several periods that end on the same day.
 * @param firstDays the first day of each period
 * @param floors tokens by period: users who exceed none of them are omitted
 */
export async function sumPart(
  { em }: Db,
  { firstDays, floors, ...period }: Days & { firstDays: string[]; floors: number[] },
  part: { after: string | null; upTo: string | null },
): Promise<RankedUser[]> {
  const sums = firstDays.map(
    (_, i) => `sum(tokens) filter (where day >= :first${i}::date)::float8 as t${i}`,
  );
  const rows = await em.execute<Record<string, unknown>[]>(
    `select * from (
       select user_id as "userId", ${sums.join(", ")}
       from (select user_id, day, input_tokens + output_tokens as tokens from ai_usage_users
         where ${AFTER} and (:upTo::uuid is null or user_id <= :upTo::uuid) and ${IN_PERIOD}) as usage
       group by user_id) as part
     where ${firstDays.map((_, i) => `t${i} > :floor${i}::float8`).join(" or ")}`,
    {
      ...part,
      ...period,
      ...Object.fromEntries(firstDays.map((day, i) => [`first${i}`, day])),
      ...Object.fromEntries(floors.map((floor, i) => [`floor${i}`, floor])),
    },
  );
  return rows.map((row) => ({
    userId: row.userId as string,
    tokens: firstDays.map((_, i) => row[`t${i}`] as number | null),
  }));
}

/** The users with the most tokens since a day. `others`: maximum tokens of all other users. */
export type Ranking = { firstDay: string; others: number; users: UserTokens[] };

/**
 * Replaces the rankings.
 * @param versions of the ranked days, read before the users were summed up
 * @throws Error if it times out waiting for a lock: see `isLockTimeout`. This transaction and the
 * erasure of a user may wait for each other.
 */
export const replaceRankings = (
  { em }: Db,
  rankings: readonly Ranking[],
  { lastDay, versions }: { lastDay: string; versions: readonly DayVersion[] },
): Promise<void> =>
  em.transactional(async () => {
    await em.execute("set local lock_timeout = '500ms'"); // less than PostgreSQL's deadlock_timeout
    await em.execute("lock table ai_usage_rankings in share row exclusive mode");
    await em.execute("delete from ai_usage_rankings");
    await em.execute("delete from ai_usage_ranked_days");
    await em.execute(
      "insert into ai_usage_ranked_days select day, version from jsonb_to_recordset(:rows::jsonb) as v (day date, version text)",
      { rows: JSON.stringify(versions) },
    );
    for (const { firstDay, others, users } of rankings) {
      await em.execute(
        "insert into ai_usage_rankings (first_day, last_day, others) values (:firstDay, :lastDay, :others)",
        { firstDay, lastDay, others },
      );
      await em.execute(
        `insert into ai_usage_ranked_users (user_id, first_day, last_day, tokens)
         select r."userId", :firstDay, :lastDay, r.tokens from jsonb_to_recordset(:rows::jsonb) as r ("userId" uuid, tokens bigint)
         join users on users.id = r."userId" order by r."userId"`, // without those who have been erased since
        { firstDay, lastDay, rows: JSON.stringify(users) },
      );
    }
  });

/** What is known of the days that are over. */
const OF_DAYS = [
  ...OF_CLOSED_DAYS,
  ...["ai_usage_closed_periods", "ai_usage_rankings", "ai_usage_ranked_days"],
];

/**
 * Deletes what has been computed about the days that are over, so that the job computes it again.
 * In a restored backup, the versions of days are transaction ids of another server. Joins the
 * caller's transaction.
 */
export async function reopenDays({ em }: Db): Promise<void> {
  for (const table of OF_DAYS) await em.execute(`delete from ${table}`);
  await em.execute("update ai_usage_summing set ranked_at = null");
}
