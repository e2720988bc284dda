import { type Db, oneRow, returnsRow } from "./statement.ts";
import type { DayVersion } from "./usage-parts.ts";
import { type Days, hasUnsummed, IN_PERIOD, USER_DAYS } from "./usage-sums.ts";

/** A user and the tokens of a period. */
export type UserTokens = { userId: string; tokens: number };

/**
 * Users in a ranking. Among a million users who all use about the same, each of the ten with the
 * most tokens of 30 days has several thousand tokens more than the last one in the ranking.
 */
export const RANKED_USERS = 10_000;

/** Users that are candidates at most. Beyond that, adding up everybody is not much slower. */
const MAX_CANDIDATES = 100_000;

/** Tokens of candidate `c` in the period. */
const TOTAL = `select sum(input_tokens + output_tokens) as tokens from ai_usage_users
  where user_id = c.user_id and ${IN_PERIOD}`;

/**
 * The users with the most tokens of a period, largest first. A million users can't be added up in
 * 100 ms. Therefore a ranking is used that a job has made of the days that are over. The other days
 * of the period are open: those that no ranking covers, and those that have changed since. If some
 * users have a sum, the floor, then a user who has as much
 *
 * - is in the ranking, and has as much with its tokens of the open days, or
 * - is not, and has on at least one open day an equal share of what exceeds the last one in the
 *   ranking.
 *
 * The exact sums of all these are compared. Without a ranking, all days are open. Everybody is
 * added up if too many users are candidates.
 */
export async function findTopUsers(
  db: Db,
  request: Days & { limit: number },
): Promise<UserTokens[]> {
  const top = (await hasUnsummed(db)) ? undefined : await findAmongCandidates(db, request);
  return (
    top ??
    db.em.execute(
      `select user_id as "userId", sum(input_tokens + output_tokens)::float8 as tokens
       from ${USER_DAYS} as usage where ${IN_PERIOD} and user_id is not null
       group by user_id order by tokens desc, user_id limit :limit`,
      request,
    )
  );
}

/**
 * One statement, so that all of it sees the same calls.
 * @returns undefined if too many users are candidates
 */
async function findAmongCandidates(
  { em }: Db,
  request: Days & { limit: number },
): Promise<UserTokens[] | undefined> {
  const rows = await em.execute<(UserTokens & { isComplete: boolean })[]>(
    `with ranking as materialized (
       select first_day, last_day, others from ai_usage_rankings
       where first_day >= :firstDay::date and last_day <= :lastDay::date order by last_day - first_day desc limit 1),
     open_days as materialized (
       select d.day from (select generate_series(:firstDay::date, :lastDay::date, '1 day')::date as day) as d
       left join ranking r on d.day between r.first_day and r.last_day
       left join ai_usage_ranked_days k on k.day = d.day
       left join (select day, version from ai_usage_day_versions where ${IN_PERIOD}) as v on v.day = d.day
       where r.first_day is null or k.version is distinct from v.version),
     ranked as materialized (
       select u.user_id, u.tokens + coalesce(o.tokens, 0) as most from ai_usage_ranked_users u
       cross join lateral (
         select sum(t.tokens)::bigint as tokens from open_days d cross join lateral (
           select input_tokens + output_tokens as tokens from ai_usage_users
           where user_id = u.user_id and day = d.day limit 1) as t) as o -- one row, so that no other days are read
       where u.first_day = (select first_day from ranking)),
     sample as materialized (
       (select user_id from ranked order by most desc limit :limit)
       union
       select t.user_id from open_days d cross join lateral (
         select user_id from ai_usage_users where day = d.day and user_id is not null
         order by input_tokens + output_tokens desc limit :limit) as t),
     bounds as materialized (
       select s.floor, coalesce((select others from ranking), 0) as others, (select count(*) from open_days) as days
       from (
         select case when count(tokens) = :limit then min(tokens) else 0 end::bigint as floor from (
           select t.tokens from sample c cross join lateral (${TOTAL}) as t order by t.tokens desc nulls last limit :limit) as top) as s),
     candidates as materialized (
       (select user_id from ranked where most >= (select floor from bounds))
       union all
       (select t.user_id from open_days d cross join lateral (
          select user_id from ai_usage_users where day = d.day and user_id is not null
            and input_tokens + output_tokens >= (select (floor - others) / nullif(days, 0) from bounds)
          order by input_tokens + output_tokens desc limit ${MAX_CANDIDATES + 1}) as t -- so that no other days are read
        limit ${MAX_CANDIDATES + 1})),
     found as materialized (
       select floor >= others and (select count(*) from candidates) <= ${MAX_CANDIDATES} as is_complete from bounds)
     select f.is_complete as "isComplete", top.user_id as "userId", top.tokens::float8 as tokens
     from found f left join lateral (
       select c.user_id, t.tokens from (select distinct user_id from candidates) as c cross join lateral (${TOTAL}) as t
       where f.is_complete and t.tokens is not null order by t.tokens desc, c.user_id limit :limit) as top on true
     order by top.tokens desc, top.user_id`,
    request,
  );
  if (!rows[0]?.isComplete) return undefined;
  return rows.flatMap(({ userId, tokens }) => (userId ? [{ userId, tokens }] : []));
}

/** Interval at which rankings are made again if one of their days has changed, in ms. */
const RANKING_INTERVAL_MS = 600_000;

/**
 * Claims to make the rankings of the periods that end with a day, if there are none, or if a day
 * has changed since. The claim ends after ten minutes, so that others continue after a crash.
 * @returns whether to make them
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

/** Reads the versions of days, to find out later whether they have changed. */
export const readDayVersions = ({ em }: Db, days: Days): Promise<DayVersion[]> =>
  em.execute(
    `select to_char(day, 'YYYY-MM-DD') as day, version from ai_usage_day_versions where ${IN_PERIOD}`,
    days,
  );

/**
 * Finds the end of a part of the users, by id.
 * @param after the end of the part before; null at the beginning
 * @param rows days of users in the part
 * @returns the id of its last user; null if the rest is smaller
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

/** A user, and the tokens of several periods; null without calls. */
export type RankedUser = { userId: string; tokens: (number | null)[] };

/**
 * Adds up a part of the users for several periods that end on the same day.
 * @param firstDays of the periods
 * @param floors for each period, the tokens that a user must exceed; one of them is enough
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

/** The users with the most tokens from a day on. `others`: what everybody else has at most. */
export type Ranking = { firstDay: string; others: number; users: UserTokens[] };

/**
 * Replaces the rankings.
 * @param versions of their days, read before the users were added up
 * @throws Error if it times out: see `isLockTimeout`. An erasure of a user may wait for this
 * statement, and this statement for the user.
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
        `insert into ai_usage_ranked_users (user_id, first_day, tokens)
         select r."userId", :firstDay, r.tokens from jsonb_to_recordset(:rows::jsonb) as r ("userId" uuid, tokens bigint)
         join users on users.id = r."userId" order by r."userId"`, // without those who have been erased since
        { firstDay, rows: JSON.stringify(users) },
      );
    }
  });

/** What is known of the days that are over. */
const OF_CLOSED_DAYS = [
  ...["ai_usage_keys", "ai_usage_aliases", "ai_usage_closed_days"],
  ...["ai_usage_rankings", "ai_usage_ranked_days"],
];

/**
 * Forgets what is known of the days that are over, so that the job closes them again. The versions
 * of days in a restored backup are transactions of another server. Joins the caller's transaction.
 */
export async function reopenDays({ em }: Db): Promise<void> {
  for (const table of OF_CLOSED_DAYS) await em.execute(`delete from ${table}`);
  await em.execute("update ai_usage_summing set ranked_at = null");
}
