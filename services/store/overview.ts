import { lockChain } from "./audit-seals.ts";
import { lowestId } from "./ids.ts";
import { type Db, HOUR, HOUR_TEXT, oneRow, returnsRow } from "./statement.ts";
import type { Days } from "./usage-sums.ts";

/** A count for a day (UTC). */
export type DayCount = { day: string; count: number };

const IN_PERIOD = "day between :firstDay::date and :lastDay::date";

/** The events that an overview counts. */
const COUNTED = ["auth.login", "auth.login_failed", "auth.register"] as const;
export type CountedEvent = (typeof COUNTED)[number];

/**
 * Whether the events of all seals have been counted by day, including seals from before the counts
 * existed.
 */
const isCounted = (db: Db): Promise<boolean> =>
  returnsRow(db, "select 1 from audit_counting where counted_from = 0");

/** Counts audit events by day. Includes events that are not sealed yet. */
export async function countEventsByDay(
  db: Db,
  days: Days,
): Promise<(DayCount & { event: CountedEvent })[]> {
  if (!(await isCounted(db)))
    return db.em.execute(
      `select to_char(created_at at time zone 'UTC', 'YYYY-MM-DD') as day, event, count(*)::float8 as count
       from audit_events where event in (:events) and id >= :lowest group by 1, 2`,
      { events: COUNTED, lowest: lowestId(new Date(days.firstDay)) },
    );
  return db.em.execute(
    `select to_char(day, 'YYYY-MM-DD') as day, event, sum(events)::float8 as count from (
       select day, event, events from audit_days where event in (:events) and ${IN_PERIOD}
       union all
       select (e.created_at at time zone 'UTC')::date, e.event, 1
       from audit_unsealed u
       cross join lateral (select created_at, event from audit_events where id = u.event_id limit 1) as e -- never scans all events
       where e.event in (:events)) as counted
     where ${IN_PERIOD} group by day, event`,
    { ...days, events: COUNTED },
  );
}

/** Counts audit events by hour since the given time. */
export const countEventsByHour = (
  { em }: Db,
  since: Date,
): Promise<(DayCount & { event: CountedEvent })[]> =>
  em.execute(
    `select ${HOUR_TEXT} as day, event, count
     from (select ${HOUR} as hour, event, count(*)::float8 as count
       from audit_events where event in (:events) and id >= :lowest group by 1, 2) as counted`,
    { events: COUNTED, lowest: lowestId(since) },
  );

/** A time, and a later one that is not included. */
type Span = { since: Date; until: Date };

/** Number of audit events in a span. */
export const countEventsWithin = (
  { em }: Db,
  { since, until }: Span,
): Promise<{ event: CountedEvent; count: number }[]> =>
  em.execute(
    `select event, count(*)::float8 as count from audit_events
     where event in (:events) and id >= :lowest and id < :end group by event`,
    { events: COUNTED, lowest: lowestId(since), end: lowestId(until) },
  );

/** Number of seals whose events one statement counts. */
const SEALS_PER_STATEMENT = 200;

/**
 * Counts events that were sealed before daily counts existed, latest first, as far back as the
 * overview goes. Sealing waits until then.
 * @param since earlier events are not counted
 * @returns whether there may be more
 */
export async function countEarlierEvents(db: Db, since: Date): Promise<boolean> {
  if (await isCounted(db)) return false;
  return db.em.transactional(async () => {
    if (!(await lockChain(db))) return false;
    const { before } = await oneRow<{ before: number }>(
      db,
      `select coalesce(counted_from, (select coalesce(max(position), 0) + 1 from audit_seals))::float8 as before
       from audit_counting`,
    );
    const from = Math.max(1, before - SEALS_PER_STATEMENT);
    const events = `audit_events where created_at >= :since and id = any(array(
      select unnest(ids) from audit_seals where position >= :from and position < :before))`;
    await db.em.execute(
      `insert into audit_days as d select (created_at at time zone 'UTC')::date, event, outcome, count(*)
       from ${events} group by 1, 2, 3 order by 1, 2, 3
       on conflict (day, event, outcome) do update set events = d.events + excluded.events`,
      { since, from, before },
    );
    await db.em.execute(
      `insert into active_users select distinct (created_at at time zone 'UTC')::date, user_id
       from ${events} and event = 'auth.login' and user_id is not null order by 1, 2 on conflict do nothing`,
      { since, from, before },
    );
    const goesOn =
      from > 1 &&
      (await returnsRow(
        db,
        "select 1 from audit_seals where position = :from and sealed_at >= :since",
        { from, since },
      ));
    await db.em.execute("update audit_counting set counted_from = :from", {
      from: goesOn ? from : 0,
    });
    return goesOn;
  });
}

/** Counts active users by day. */
export const countActiveUsersByDay = ({ em }: Db, days: Days): Promise<DayCount[]> =>
  em.execute(
    `select to_char(day, 'YYYY-MM-DD') as day, sum(users)::float8 as count from (
       select day, users from active_user_days where ${IN_PERIOD}
       union all
       select day, count(*) from active_users where ${IN_PERIOD} group by day) as counted
     group by day`,
    days,
  );

/**
 * Replaces the active users of earlier days with their number, so that it is not stored on which
 * days a user was active.
 */
export async function closeActiveDays(db: Db, before: Date): Promise<void> {
  if (!(await isCounted(db))) return; // earlier sign-ins may follow
  await db.em.execute(
    `with closed as (
       delete from active_users where day < (:before::timestamptz at time zone 'UTC')::date returning day)
     insert into active_user_days as d select day, count(*) from closed group by day order by day
     on conflict (day) do update set users = d.users + excluded.users`,
    { before },
  );
}

/** Counts e-mails that could not be delivered, by the day on which they were queued. */
export const countFailedEmailsByDay = ({ em }: Db, { firstDay }: Days): Promise<DayCount[]> =>
  em.execute(
    `select to_char(created_at at time zone 'UTC', 'YYYY-MM-DD') as day, count(*)::float8 as count
     from emails where status = 'failed' and id >= :lowest group by 1`,
    { lowest: lowestId(new Date(firstDay)) },
  );

/** Counts e-mails that could not be delivered, by the hour in which they were queued. */
export const countFailedEmailsByHour = ({ em }: Db, since: Date): Promise<DayCount[]> =>
  em.execute(
    `select ${HOUR_TEXT} as day, count
     from (select ${HOUR} as hour, count(*)::float8 as count
       from emails where status = 'failed' and id >= :lowest group by 1) as counted`,
    { lowest: lowestId(since) },
  );

/** Number of e-mails that failed in a span. */
export const countFailedEmailsWithin = async (db: Db, { since, until }: Span): Promise<number> => {
  const { count } = await oneRow<{ count: number }>(
    db,
    `select count(*)::float8 as count from emails
     where status = 'failed' and id >= :lowest and id < :end`,
    { lowest: lowestId(since), end: lowestId(until) },
  );
  return count;
};

/** Events that should have been sealed by now. */
export type WaitingEvents = {
  count: number;
  /** Time of the oldest one; null if there is none. */
  since: Date | null;
};

/** Counts unsealed events from before the given time. */
export const countWaitingEvents = (db: Db, before: Date): Promise<WaitingEvents> =>
  oneRow(
    db,
    `select count(*)::int as count, (
       select created_at from audit_events where id = (select event_id from audit_unsealed order by event_id limit 1)) as since
     from audit_unsealed where event_id < :lowest`,
    { lowest: lowestId(before) },
  );

/** Maximum number of calls from which the health of providers is computed. */
const MAX_CALLS = 20_000;

/** Health of a provider, computed from recent calls. */
export type ProviderHealth = {
  provider: string;
  calls: number;
  failedCalls: number;
  medianLatencyMs: number | null;
  lastFailure: string | null;
  lastFailureAt: Date | null;
};

/**
 * Computes the health of each provider from the calls since the given time.
 * @param noFaults outcomes of calls that are not the provider's fault
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
