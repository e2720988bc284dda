import { type Db, type HotDb, oneRow, prepared } from "./statement.ts";
import type { UsageRow } from "./usage.ts";

/** Whose calls a budget limits: all of them, each user of a role, one user, or one API key. */
export type BudgetScope = "deployment" | "role" | "user" | "key";
/** `cost`: in nano-units (1e-9) of the currency. `tokens`: input and output. */
export type BudgetUnit = "cost" | "tokens";
export type BudgetPeriod = "day" | "month";

/** The first days of the current periods, such as `2026-11-28` and `2026-11-01`. */
export type PeriodStarts = { day: string; month: string };

/**
 * A counter of a budget, with its budget. Amounts are in the unit of the budget, and may exceed
 * 2^53.
 */
type CounterRow = {
  budgetId: string;
  scope: BudgetScope;
  unit: BudgetUnit;
  period: BudgetPeriod;
  subject: string;
  limit: string;
  used: string;
  reserved: string;
};

/** A counter of a budget that limits a call, as read for the call. */
export type BudgetCounter = Pick<
  CounterRow,
  "budgetId" | "scope" | "unit" | "period" | "subject"
> & {
  limit: bigint;
  used: bigint;
  reserved: bigint;
  /** Maximum usage of the call's input. */
  input: bigint;
  /** Maximum usage per output token. */
  perOutput: bigint;
  /**
   * Whether this is the first call that was refused because too little of the period's budget is
   * left, and at most half of it.
   */
  isNewlyExceeded: boolean;
};

/** A request for the reservation of a call. */
export type ReserveRequest = {
  /** The row of the call. */
  row: UsageRow;
  starts: PeriodStarts;
  /** Maximum number of tokens that the input can have, all attempts together. */
  inputTokens: number;
  /** Maximum cost of that input and of an output token, in nano-units; null without a price. */
  inputCost: bigint | null;
  outputCost: bigint | null;
  /** Maximum number of output tokens that the call asks for. */
  wanted: number;
  /** Minimum number of output tokens; if fewer fit, the call is refused. */
  least: number;
};

/** The result of a request for a reservation. */
export type ReserveOutcome = {
  /** Whether the user still exists. */
  hasOwner: boolean;
  /** Number of budgets that limit the call. */
  rules: number;
  /** Their counters; fewer than `rules` if some do not exist yet, see `addCounters`. */
  counters: BudgetCounter[];
  /** Whether a budget of money applies although the call has no price. */
  isUnpriced: boolean;
  /**
   * Whether calls before it in the same statement use one of its counters. It may fit once they are
   * decided.
   */
  isBehind: boolean;
  /** Number of reserved output tokens; null if nothing was reserved. */
  granted: number | null;
};

/**
 * The budgets that limit calls, with what each call needs of them. A user's own budget replaces
 * that of the role. The owners are locked first, in one order with `settle_usage` and erasures,
 * which hold the owner while they wait for the counters. The limit excludes no call: with it, the
 * planner expects one call and uses indexes. Otherwise it expects many, and reads all budgets and
 * counters: with 20,000 of each, 5.9 ms instead of 0.9 ms.
 */
const RULES = `
  given as (
    select c.n, g.* from unnest(:calls::text[]) with ordinality as c (call, n)
    cross join lateral jsonb_to_record(c.call::jsonb) as g ("row" jsonb, "userId" uuid, "keyId" text, day date, month date,
      "inputTokens" bigint, "inputCost" bigint, "outputCost" bigint, wanted bigint, least bigint)
    limit :count::int),
  owners as (select id, role from users where id in (select "userId" from given) order by id for key share),
  rules as (
    select g.n, g.wanted, g.least, b.id as budget_id, b.scope, b.unit, b.period, b.limit_amount,
      case b.scope when 'role' then o.id::text else b.subject end as subject,
      case b.period when 'day' then g.day else g.month end as period_start,
      case b.unit when 'cost' then g."inputCost" else g."inputTokens" end as input,
      case b.unit when 'cost' then g."outputCost" else 1 end as per_output,
      count(*) over (partition by g.n) as rules
    from given g join owners o on o.id = g."userId"
    cross join lateral (values ('deployment', ''), ('role', o.role), ('user', o.id::text), ('key', g."keyId")) as s (scope, subject)
    join budgets b on b.scope = s.scope and b.subject = s.subject
    where b.scope <> 'role' or not exists (
      select from budgets own where own.scope = 'user' and own.subject = o.id::text and own.unit = b.unit and own.period = b.period))`;

type CallValues = { calls: string[]; count: number };

type ReservedRow = Omit<ReserveOutcome, "counters"> & {
  counters:
    | (CounterRow & { input: string | null; perOutput: string | null; isNewlyExceeded: boolean })[]
    | null;
};

/**
 * Reserves what calls may use at most, each in all of its budgets or in none, and writes their
 * rows. A call that is refused while most of a budget is left is too large, and does not use the
 * budget up. `for no key update` waits for concurrent statements and reads what they have left:
 * without it, the statement would add to the counters of its snapshot, and calls at the same time
 * would all fit. All callers lock the counters in one order. Calls before another one are taken to
 * use all that they want, so what is left for it is never too much; if it does not get all that it
 * wants, it has to ask again.
 */
const reserve = prepared<CallValues, ReservedRow>(
  "reserve_budgets",
  `with ${RULES},
  locked as (
    select c.budget_id, c.subject, c.period_start, c.used, c.reserved, c.exceeded_at
    from budget_counters c join (select distinct budget_id, subject, period_start from rules) as r using (budget_id, subject, period_start)
    order by c.budget_id, c.subject, c.period_start for no key update of c),
  needs as (
    select r.*, l.used, l.reserved + coalesce(sum(r.input + r.per_output * r.wanted) over earlier, 0) as reserved, l.exceeded_at,
      count(*) over earlier > 0 as is_behind
    from rules r join locked l using (budget_id, subject, period_start)
    window earlier as (partition by budget_id, subject, period_start order by r.n rows between unbounded preceding and 1 preceding)),
  granted as (
    select n, wanted, least, bool_or(is_behind) as is_behind, count(*) = rules as is_complete,
      case when count(*) = rules and min(room) >= 0 and bool_and(room is not null and per_output is not null)
        then least(wanted, min(div(room, nullif(per_output, 0)))::bigint) end as output
    from needs cross join lateral (select limit_amount - used - reserved - input as room) as left_over
    group by n, wanted, least, rules),
  ok as (select n, output from granted where output >= least and (output = wanted or not is_behind)),
  call as (
    insert into ai_usage (id, user_id, api_key_id, alias, provider, model, outcome, input_tokens, output_tokens, estimated, attempts, cost_nanos,
      created_at, reserved)
    select p.id, p.user_id, p.api_key_id, p.alias, p.provider, p.model, p.outcome, p.input_tokens, p.output_tokens, p.estimated, p.attempts,
      p.cost_nanos, p.created_at,
      jsonb_build_object('inputTokens', g."inputTokens", 'outputTokens', ok.output, 'cost', g."inputCost" + g."outputCost" * ok.output,
        'counters', (select jsonb_agg(jsonb_build_object('budget', budget_id, 'subject', subject, 'start', period_start, 'unit', unit,
          'held', input + per_output * ok.output)) from needs where needs.n = ok.n))
    from ok join given g using (n) cross join lateral jsonb_populate_record(null::ai_usage, g."row") as p),
  changed as (
    update budget_counters c set reserved = c.reserved + x.held, exceeded_at = coalesce(c.exceeded_at, x.exceeded_at)
    from (
      select budget_id, subject, period_start, coalesce(sum(input + per_output * ok.output), 0)::bigint as held,
        min((g."row"->>'created_at')::timestamptz) filter (where ok.n is null and is_complete and not granted.is_behind
          and limit_amount - used < input + per_output * granted.least and limit_amount >= input + per_output * granted.least
          and used >= limit_amount - used) as exceeded_at
      from needs join granted using (n) join given g using (n) left join ok using (n) group by 1, 2, 3) as x
    where c.budget_id = x.budget_id and c.subject = x.subject and c.period_start = x.period_start
      and (x.held > 0 or c.exceeded_at is null and x.exceeded_at is not null)
    returning c.budget_id, c.subject, x.exceeded_at is not null as is_exceeded)
  select o.id is not null as "hasOwner", coalesce((select max(rules) from rules where rules.n = g.n), 0)::int as rules,
    (select output::int from ok where ok.n = g.n) as granted,
    coalesce((select is_behind from granted where granted.n = g.n), false) as "isBehind",
    exists (select from rules where rules.n = g.n and unit = 'cost' and (input is null or per_output is null)) as "isUnpriced",
    (select jsonb_agg(jsonb_build_object('budgetId', budget_id, 'scope', scope, 'unit', unit, 'period', period, 'subject', subject,
      'limit', limit_amount::text, 'used', used::text, 'reserved', reserved::text, 'input', input::text, 'perOutput', per_output::text,
      'isNewlyExceeded', exceeded_at is null and (budget_id, subject) in (select budget_id, subject from changed where is_exceeded)))
      from needs where needs.n = g.n) as counters
  from given g left join owners o on o.id = g."userId" order by g.n`,
);

/** Calls as values of a statement, in their order. */
const valuesOf = (requests: readonly ReserveRequest[]): CallValues => ({
  calls: requests.map(({ row, starts, inputTokens, inputCost, outputCost, wanted, least }) =>
    JSON.stringify({
      ...{ row, userId: row.user_id, keyId: row.api_key_id },
      ...{ ...starts, inputTokens, wanted, least },
      inputCost: inputCost === null ? null : String(inputCost),
      outputCost: outputCost === null ? null : String(outputCost),
    }),
  ),
  count: requests.length,
});

/**
 * Reserves what calls may use at most, and inserts their rows. One prepared statement. Reserves
 * nothing for a call if one of its budgets has not enough left, or has no counter yet.
 * @returns the outcomes in the order of the calls
 */
export async function reserveBudgets(
  db: HotDb,
  requests: readonly ReserveRequest[],
): Promise<ReserveOutcome[]> {
  const found = await reserve(db, valuesOf(requests));
  return found.map(({ counters, ...outcome }) => ({
    ...outcome,
    counters: (counters ?? []).map((counter) => ({
      ...counter,
      limit: BigInt(counter.limit),
      used: BigInt(counter.used),
      reserved: BigInt(counter.reserved),
      input: BigInt(counter.input ?? 0),
      perOutput: BigInt(counter.perOutput ?? 0),
    })),
  }));
}

/**
 * `for key share` skips budgets that are deleted in the meantime. Their counters could not be
 * inserted.
 */
const add = prepared<CallValues>(
  "add_budget_counters",
  `with ${RULES}
  insert into budget_counters (budget_id, subject, period_start)
  select b.id, r.subject, r.period_start
  from (select distinct budget_id, subject, period_start from rules) as r join budgets b on b.id = r.budget_id
  order by 1, 2, 3 for key share of b
  on conflict do nothing`,
);

/** Adds the counters that calls need and that do not exist yet, whoever adds them. */
export const addCounters = (db: HotDb, requests: readonly ReserveRequest[]) =>
  add(db, valuesOf(requests));

/** A counter that has just reached its alert threshold, or its limit. */
export type Crossing = Pick<
  CounterRow,
  "budgetId" | "scope" | "unit" | "period" | "subject" | "limit"
> & {
  isExceeded: boolean;
};

/**
 * Ends calls that have a reservation, and books their usage in its place. Amounts are added up
 * first, since an update applies only one of several matching rows. A call that no longer has a
 * reservation is not changed. Waits for an ongoing erasure of an owner before any row is locked.
 */
const settle = prepared<{ rows: string; now: Date }, Crossing>(
  "settle_usage",
  `with given as (select * from jsonb_populate_recordset(null::ai_usage, :rows::jsonb)),
  owners as (select id from users where id in (select user_id from given) order by id for key share),
  due as (
    select u.id, u.reserved from ai_usage u join given using (id)
    where u.reserved is not null and (select count(*) from owners) >= 0
    order by u.id for no key update of u),
  settled as (
    update ai_usage u set
      outcome = g.outcome, input_tokens = g.input_tokens, output_tokens = g.output_tokens, cached_input_tokens = g.cached_input_tokens,
      cache_write_tokens = g.cache_write_tokens, reasoning_tokens = g.reasoning_tokens, estimated = g.estimated, attempts = g.attempts,
      cost_nanos = g.cost_nanos, latency_ms = g.latency_ms, first_chunk_ms = g.first_chunk_ms, provider = g.provider, model = g.model,
      reserved = case g.outcome when 'running' then u.reserved end
    from given g join due using (id) where u.id = due.id),
  amounts as (
    select (c->>'budget')::uuid as budget_id, c->>'subject' as subject, (c->>'start')::date as period_start,
      sum((c->>'held')::bigint)::bigint as held,
      sum(case c->>'unit' when 'cost' then coalesce(g.cost_nanos, 0) else g.input_tokens::bigint + g.output_tokens end)::bigint as actual
    from due join given g using (id) cross join lateral jsonb_array_elements(due.reserved->'counters') as c
    where g.outcome <> 'running' group by 1, 2, 3),
  locked as (
    select c.budget_id, c.subject, c.period_start, c.alerted_at, c.exceeded_at, a.held, a.actual, c.used + a.actual as used
    from budget_counters c join amounts a using (budget_id, subject, period_start)
    order by c.budget_id, c.subject, c.period_start for no key update of c),
  crossed as (
    select l.*, b.scope, b.unit, b.period, b.limit_amount, b.alert_percent,
      b.limit_amount > 0 and l.alerted_at is null and l.used::numeric * 100 >= b.limit_amount::numeric * b.alert_percent as alerts,
      b.limit_amount > 0 and l.exceeded_at is null and l.used >= b.limit_amount as exceeds
    from locked l join budgets b on b.id = l.budget_id),
  counted as (
    update budget_counters c set
      reserved = c.reserved - x.held, used = c.used + x.actual,
      alerted_at = case when x.alerts then :now::timestamptz else c.alerted_at end,
      exceeded_at = case when x.exceeds then :now::timestamptz else c.exceeded_at end
    from crossed x
    where c.budget_id = x.budget_id and c.subject = x.subject and c.period_start = x.period_start)
  select budget_id as "budgetId", scope, unit, period, subject, limit_amount::text as "limit",
    exceeds as "isExceeded"
  from crossed where exceeds or alerts and exceeded_at is null`,
);

/**
 * Writes the rows of calls that have a reservation. Calls that have ended are booked exactly once.
 * @returns the counters that have thereby reached their alert threshold or their limit
 */
export const settleUsage = (db: HotDb, rows: readonly UsageRow[], now: Date): Promise<Crossing[]> =>
  settle(db, { rows: JSON.stringify(rows), now });

/**
 * Finds calls that never ended, for example because their process crashed. Their reservations are
 * returned as their usage.
 * @param from rows created earlier are ignored
 */
export function findLostCalls(
  { em }: Db,
  { from, before, limit }: { from: Date; before: Date; limit: number },
): Promise<UsageRow[]> {
  return em.execute(
    `select id, user_id, api_key_id, alias, provider, model, 'lost' as outcome, least((reserved->>'inputTokens')::bigint, 2147483647)::int as input_tokens,
       (reserved->>'outputTokens')::int as output_tokens, null::int as cached_input_tokens, null::int as cache_write_tokens,
       null::int as reasoning_tokens, true as estimated, attempts, reserved->>'cost' as cost_nanos,
       null::int as latency_ms, null::int as first_chunk_ms, created_at
     from ai_usage where reserved is not null and created_at >= :from and created_at < :before order by created_at limit :limit`,
    { from, before, limit },
  );
}

/** First day of a period with reservations; undefined if there is none. */
export async function firstReservedDay(db: Db): Promise<Date | undefined> {
  const sql =
    "select min(period_start)::timestamptz as day from budget_counters where reserved <> 0";
  return (await oneRow<{ day: Date | null }>(db, sql)).day ?? undefined;
}

const exists = prepared<object, { exists: boolean }>(
  "budgets_exist",
  "select exists (select from budgets) as exists",
);

/** Whether there is any budget. */
export const budgetsExist = async (db: HotDb): Promise<boolean> =>
  (await exists(db, {}))[0]?.exists === true;
