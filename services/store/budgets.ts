import { type Db, type HotDb, oneRow, prepared } from "./statement.ts";
import type { UsageRow } from "./usage.ts";

/** Whose calls a budget limits: all of them, each user of a role, one user, or one API key. */
export type BudgetScope = "deployment" | "role" | "user" | "key";
/** `cost`: in nano-units (1e-9) of the currency. `tokens`: input and output. */
export type BudgetUnit = "cost" | "tokens";
export type BudgetPeriod = "day" | "month";

/** The first days of the current periods, such as `2026-11-28` and `2026-11-01`. */
export type PeriodStarts = { day: string; month: string };

/** A counter of a budget, with its budget. Amounts are in the unit of the budget, and may exceed 2^53. */
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
  /** Number of reserved output tokens; null if nothing was reserved. */
  granted: number | null;
};

/**
 * The budgets that limit a call, with the amounts that it needs from each. A user's own budget
 * replaces that of the role. The owner is locked first, in the same order as in `settle_usage` and
 * in erasures, which hold the owner while they wait for the counters.
 */
const RULES = `
  owner as (select id, role from users where id = :userId::uuid for key share),
  rules as (
    select b.id as budget_id, b.scope, b.unit, b.period, b.limit_amount,
      case b.scope when 'role' then o.id::text else b.subject end as subject,
      case b.period when 'day' then :day::date else :month::date end as period_start,
      case b.unit when 'cost' then :inputCost::bigint else :inputTokens::bigint end as input,
      case b.unit when 'cost' then :outputCost::bigint else 1 end as per_output
    from owner o
    cross join lateral (values ('deployment', ''), ('role', o.role), ('user', o.id::text), ('key', :keyId::text)) as s (scope, subject)
    join budgets b on b.scope = s.scope and b.subject = s.subject
    where b.scope <> 'role' or not exists (
      select from budgets own where own.scope = 'user' and own.subject = o.id::text and own.unit = b.unit and own.period = b.period))`;

type ReserveValues = {
  userId: string;
  keyId: string | null;
  day: string;
  month: string;
  inputTokens: number;
  inputCost: string | null;
  outputCost: string | null;
};

type ReservedRow = Omit<ReserveOutcome, "counters"> & {
  counters:
    | (CounterRow & { input: string | null; perOutput: string | null; isNewlyExceeded: boolean })[]
    | null;
};

/**
 * Reserves the maximum usage of a call in all of its budgets, or in none, and writes its row. A call
 * that is refused while more than half of a budget is unused is too large, and does not mark the
 * budget as used up. `for no key update` waits for concurrent calls and reads what they have left.
 * Without it, the statement would use the counters in its snapshot, and concurrent calls would all
 * fit. All callers lock the counters in the same order.
 */
const reserve = prepared<
  ReserveValues & { row: string; wanted: number; least: number },
  ReservedRow
>(
  "reserve_budgets",
  `with ${RULES},
  locked as (
    select c.budget_id, c.subject, c.period_start, c.used, c.reserved, c.exceeded_at, r.scope, r.unit, r.period, r.limit_amount,
      r.input, r.per_output, r.limit_amount - c.used - c.reserved - r.input as room
    from budget_counters c join rules r using (budget_id, subject, period_start)
    order by c.budget_id, c.subject, c.period_start for no key update of c),
  granted as (
    select least(:wanted::bigint, min(room / nullif(per_output, 0))) as output from locked
    having min(room) >= 0 and bool_and(room is not null and per_output is not null) and count(*) = (select count(*) from rules)),
  ok as (select output from granted where output >= :least::bigint),
  call as (
    insert into ai_usage (id, user_id, api_key_id, alias, provider, model, outcome, input_tokens, output_tokens, estimated, attempts, cost_nanos,
      created_at, reserved)
    select g.id, o.id, g.api_key_id, g.alias, g.provider, g.model, g.outcome, g.input_tokens, g.output_tokens, g.estimated, g.attempts,
      g.cost_nanos, g.created_at,
      jsonb_build_object('inputTokens', :inputTokens::bigint, 'outputTokens', ok.output,
        'cost', :inputCost::bigint + :outputCost::bigint * ok.output,
        'counters', (select jsonb_agg(jsonb_build_object('budget', budget_id, 'subject', subject, 'start', period_start, 'unit', unit,
          'held', input + per_output * ok.output)) from locked))
    from ok cross join owner o cross join jsonb_populate_record(null::ai_usage, :row::jsonb) as g),
  held as (
    update budget_counters c set reserved = c.reserved + l.input + l.per_output * ok.output
    from locked l cross join ok
    where c.budget_id = l.budget_id and c.subject = l.subject and c.period_start = l.period_start),
  exceeded as (
    update budget_counters c set exceeded_at = (:row::jsonb->>'created_at')::timestamptz
    from locked l
    where c.budget_id = l.budget_id and c.subject = l.subject and c.period_start = l.period_start and l.exceeded_at is null
      and not exists (select from ok) and (select count(*) from locked) = (select count(*) from rules)
      and l.limit_amount - l.used < l.input + l.per_output * :least::bigint
      and l.limit_amount >= l.input + l.per_output * :least::bigint
      and l.used >= l.limit_amount - l.used
    returning c.budget_id)
  select exists (select from owner) as "hasOwner", (select count(*)::int from rules) as rules, (select output::int from ok) as granted,
    exists (select from rules where unit = 'cost' and (input is null or per_output is null)) as "isUnpriced",
    (select jsonb_agg(jsonb_build_object('budgetId', budget_id, 'scope', scope, 'unit', unit, 'period', period, 'subject', subject,
      'limit', limit_amount::text, 'used', used::text, 'reserved', reserved::text, 'input', input::text, 'perOutput', per_output::text,
      'isNewlyExceeded', budget_id in (select budget_id from exceeded))) from locked) as counters`,
);

const valuesOf = ({ row, starts, inputTokens, inputCost, outputCost }: ReserveRequest) => ({
  userId: row.user_id,
  keyId: row.api_key_id,
  ...starts,
  inputTokens,
  inputCost: inputCost === null ? null : String(inputCost),
  outputCost: outputCost === null ? null : String(outputCost),
});

/**
 * Reserves the maximum usage of a call and inserts its row, in one prepared statement. Reserves
 * nothing if one of the budgets does not have enough left, or has no counter yet.
 */
export async function reserveBudgets(db: HotDb, request: ReserveRequest): Promise<ReserveOutcome> {
  const { row, wanted, least } = request;
  const [found] = await reserve(db, {
    ...valuesOf(request),
    ...{ row: JSON.stringify(row), wanted, least },
  });
  const { counters, ...outcome } = found as ReservedRow;
  return {
    ...outcome,
    counters: (counters ?? []).map((counter) => ({
      ...counter,
      limit: BigInt(counter.limit),
      used: BigInt(counter.used),
      reserved: BigInt(counter.reserved),
      input: BigInt(counter.input ?? 0),
      perOutput: BigInt(counter.perOutput ?? 0),
    })),
  };
}

/**
 * `for key share` skips budgets that are deleted in the meantime, whose counters could not be
 * inserted.
 */
const add = prepared<ReserveValues>(
  "add_budget_counters",
  `with ${RULES}
  insert into budget_counters (budget_id, subject, period_start)
  select b.id, r.subject, r.period_start from rules r join budgets b on b.id = r.budget_id
  order by 1, 2, 3 for key share of b
  on conflict do nothing`,
);

/** Adds missing counters for a call. Concurrent callers may add the same counters. */
export const addCounters = (db: HotDb, request: ReserveRequest) => add(db, valuesOf(request));

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
