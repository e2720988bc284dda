import { lowestId } from "./ids.ts";
import { type Db, oneRow } from "./statement.ts";
import type { Days } from "./usage-sums.ts";

/** A number of a day (UTC). */
export type DayCount = { day: string; count: number };

const IN_PERIOD = "day between :firstDay::date and :lastDay::date";

/** The events that an overview counts. */
const COUNTED = ["auth.login", "auth.login_failed", "auth.register"] as const;
export type CountedEvent = (typeof COUNTED)[number];

/** Number of audit events by day. Events that are not sealed yet count too. */
export const countEventsByDay = (
  { em }: Db,
  days: Days,
): Promise<(DayCount & { event: CountedEvent })[]> =>
  em.execute(
    `select to_char(day, 'YYYY-MM-DD') as day, event, sum(events)::float8 as count from (
       select day, event, events from audit_days where event in (:events) and ${IN_PERIOD}
       union all
       select (e.created_at at time zone 'UTC')::date, e.event, 1
       from audit_unsealed u join audit_events e on e.id = u.event_id where e.event in (:events)) as counted
     where ${IN_PERIOD} group by day, event`,
    { ...days, events: COUNTED },
  );

/** Number of active users by day. */
export const countActiveUsersByDay = ({ em }: Db, days: Days): Promise<DayCount[]> =>
  em.execute(
    `select to_char(day, 'YYYY-MM-DD') as day, sum(users)::float8 as count from (
       select day, users from active_user_days where ${IN_PERIOD}
       union all
       select day, count(*) from active_users where ${IN_PERIOD} group by day) as counted
     group by day`,
    days,
  );

/** Replaces the active users of earlier days by their number, so that nobody's days are kept. */
export async function closeActiveDays({ em }: Db, before: Date): Promise<void> {
  await em.execute(
    `with closed as (
       delete from active_users where day < (:before::timestamptz at time zone 'UTC')::date returning day)
     insert into active_user_days as d select day, count(*) from closed group by day order by day
     on conflict (day) do update set users = d.users + excluded.users`,
    { before },
  );
}

/** Number of e-mails that could not be delivered, by the day on which they were queued. */
export const countFailedEmailsByDay = ({ em }: Db, { firstDay }: Days): Promise<DayCount[]> =>
  em.execute(
    `select to_char(created_at at time zone 'UTC', 'YYYY-MM-DD') as day, count(*)::float8 as count
     from emails where status = 'failed' and id >= :lowest group by 1`,
    { lowest: lowestId(new Date(firstDay)) },
  );

/** Number of events that were not sealed when they were older than they should be. */
export async function countWaitingEvents(db: Db, before: Date): Promise<number> {
  const { waiting } = await oneRow<{ waiting: number }>(
    db,
    "select count(*)::int as waiting from audit_unsealed where event_id < :lowest",
    { lowest: lowestId(before) },
  );
  return waiting;
}

/** Maximum number of calls that the health of providers is read from. */
const MAX_CALLS = 20_000;

/** How a provider has replied. */
export type ProviderHealth = {
  provider: string;
  calls: number;
  failedCalls: number;
  medianLatencyMs: number | null;
  lastFailure: string | null;
  lastFailureAt: Date | null;
};

/**
 * How providers have replied since a time, by provider.
 * @param noFaults outcomes of ended calls that are no fault of a provider
 */
export const readProviderHealth = (
  { em }: Db,
  since: Date,
  noFaults: readonly string[],
): Promise<ProviderHealth[]> =>
  em.execute(
    `select provider, count(*)::int as calls, count(*) filter (where failed)::int as "failedCalls",
       percentile_cont(0.5) within group (order by latency_ms) filter (where outcome = 'completed') as "medianLatencyMs",
       (array_agg(outcome order by created_at desc) filter (where failed))[1] as "lastFailure",
       max(created_at) filter (where failed) as "lastFailureAt"
     from (select *, outcome not in (:noFaults) as failed from (
         select * from ai_usage where created_at >= :since order by created_at desc limit ${MAX_CALLS}) as recent
       where outcome not in ('running', 'cancelled')) as ended
     group by provider order by provider collate "C"`,
    { since, noFaults },
  );
