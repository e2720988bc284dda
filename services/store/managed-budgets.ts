import type { BudgetPeriod, BudgetScope, BudgetUnit, PeriodStarts } from "./budgets.ts";
import { type Page, type PageRequest, readPage, rowsWhere } from "./page.ts";
import { type Person, personColumn } from "./person.ts";
import { type ClockedDb, type Db, firstRow } from "./statement.ts";

/** The unique key of a budget. The subject is a role or an id; empty for the deployment. */
export type BudgetKey = {
  scope: BudgetScope;
  subject: string;
  unit: BudgetUnit;
  period: BudgetPeriod;
};

/** A budget. Amounts are nano-units of money or tokens, as text. */
export type BudgetRow = BudgetKey & { id: string; limit: string; alertPercent: number };

/** A budget with its usage in the current period. */
export type ListedBudget = BudgetRow & {
  /** Null for the budget of a role if no user is given. */
  used: string | null;
  reserved: string | null;
  /** The user of the budget, or the owner of the API key. */
  user: Person | null;
  keyName: string | null;
};

const BUDGET = `t.id, t.scope, t.subject, t.unit, t.period, t.limit_amount::text as "limit", t.alert_percent as "alertPercent"`;

/** Columns and joins of a list of budgets `t`, with the counters of the current periods. */
const LISTED = {
  columns: `${BUDGET}, ${personColumn("u", "user")}, k.name as "keyName",
    case when t.scope <> 'role' or :userId::text is not null then coalesce(c.used, 0)::text end as used,
    case when t.scope <> 'role' or :userId::text is not null then coalesce(c.reserved, 0)::text end as reserved`,
  joins: `
    left join api_keys k on k.id = case t.scope when 'key' then t.subject::uuid end
    left join users u on u.id = case t.scope when 'user' then t.subject::uuid when 'key' then k.user_id end
    left join budget_counters c on c.budget_id = t.id
      and c.period_start = case t.period when 'day' then :day::date else :month::date end
      and c.subject = case t.scope when 'role' then :userId::text else t.subject end`,
};

/** Whether budget `t` limits the calls of a user. Excludes budgets of the deployment. */
const OF_USER = `t.scope = 'user' and t.subject = :userId::text
  or t.scope = 'key' and t.subject in (select k.id::text from api_keys k where k.user_id = :userId::uuid and k.revoked_at is null)
  or t.scope = 'role' and t.subject = (select role from users where id = :userId::uuid) and not exists (
    select from budgets own where own.scope = 'user' and own.subject = :userId::text and own.unit = t.unit and own.period = t.period)`;

/** Lists budgets, newest first, optionally only those of a scope or those that limit a user. */
export function listBudgets(
  db: Db,
  filter: { scope?: string | undefined; userId?: string | undefined },
  starts: PeriodStarts,
  request: PageRequest,
): Promise<Page<ListedBudget>> {
  const { where, values } = rowsWhere({ scope: "t.scope = :scope", userId: OF_USER }, filter);
  const named = { ...values, ...starts, userId: filter.userId ?? null };
  return readPage(db, { ...LISTED, from: "budgets", where, values: named }, request);
}

/** Finds a budget with its usage in the current period. */
export const findBudget = (
  db: Db,
  id: string,
  starts: PeriodStarts,
  userId: string | null = null,
): Promise<ListedBudget | undefined> =>
  firstRow(db, `select ${LISTED.columns} from budgets t ${LISTED.joins} where t.id = :id`, {
    ...{ id, userId },
    ...starts,
  });

/** Finds and locks a budget by its key. */
export const lockBudget = (db: Db, key: BudgetKey): Promise<BudgetRow | undefined> =>
  firstRow(
    db,
    `select ${BUDGET} from budgets t
     where t.scope = :scope and t.subject = :subject and t.unit = :unit and t.period = :period for update`,
    key,
  );

/** Inserts a budget, or changes limit and threshold of the one with the same key. */
export async function upsertBudget(db: ClockedDb, budget: BudgetRow): Promise<string> {
  const row = await firstRow<{ id: string }>(
    db,
    `insert into budgets (id, scope, subject, unit, period, limit_amount, alert_percent, created_at)
     values (:id, :scope, :subject, :unit, :period, :limit, :alertPercent, :now)
     on conflict on constraint budgets_key do update set limit_amount = excluded.limit_amount, alert_percent = excluded.alert_percent
     returning id`,
    { ...budget, now: db.clock.now() },
  );
  return row?.id ?? budget.id;
}

/**
 * Deletes a budget with its counters.
 * @returns undefined if there is none
 */
export const deleteBudget = (db: Db, id: string): Promise<BudgetRow | undefined> =>
  firstRow(db, `delete from budgets t where t.id = :id returning ${BUDGET}`, { id });

/** The usage rows that a budget counts, by scope. */
const COUNTED: Record<BudgetScope, { rows: string; subject: string }> = {
  deployment: { rows: "true", subject: "''" },
  role: {
    rows: "user_id in (select id from users where role = :subject)",
    subject: "user_id::text",
  },
  user: { rows: "user_id = :subject::uuid", subject: "user_id::text" },
  key: { rows: "api_key_id = :subject::uuid", subject: "api_key_id::text" },
};

/**
 * Replaces the usage of a budget with that of the calls of the current period that have ended.
 * Calls that hold a reservation are booked when they end.
 * @param startedAt start of the period
 * @param day first day of the period
 */
export async function countUsage(
  { em }: Db,
  { id, scope, subject, unit }: BudgetRow,
  { startedAt, day }: { startedAt: Date; day: string },
): Promise<void> {
  const values = { id, subject, startedAt, day };
  // first wait for calls that are being booked, so that the sum includes them
  await em.execute(
    `update budget_counters c set used = 0 from (
       select budget_id, subject, period_start from budget_counters where budget_id = :id and period_start = :day::date
       order by subject for no key update) as l
     where c.budget_id = l.budget_id and c.subject = l.subject and c.period_start = l.period_start`,
    values,
  );
  const { rows, subject: counted } = COUNTED[scope];
  const amount =
    unit === "cost" ? "coalesce(cost_nanos, 0)" : "input_tokens::bigint + output_tokens::bigint";
  // daily totals have no API keys
  const earlier = `union all select ${counted}, ${amount} from ai_usage_days where ${rows} and day >= :day::date`;
  await em.execute(
    `insert into budget_counters (budget_id, subject, period_start, used)
     select :id, subject, :day::date, sum(amount) from (
       select ${counted} as subject, ${amount} as amount from ai_usage
       where ${rows} and created_at >= :startedAt and reserved is null and outcome <> 'running'
       ${scope === "key" ? "" : earlier}) as usage
     group by subject order by subject
     on conflict on constraint budget_counters_key do update set used = excluded.used`,
    values,
  );
}

/**
 * Replaces the usage of a budget in a period.
 * @returns the usage before
 */
export async function adjustCounter(
  db: Db,
  counter: { id: string; subject: string; day: string; used: string },
): Promise<string> {
  await db.em.execute(
    `insert into budget_counters (budget_id, subject, period_start) values (:id, :subject, :day::date) on conflict do nothing`,
    counter,
  );
  const row = await firstRow<{ before: string }>(
    db,
    `with before as (
       select used from budget_counters where budget_id = :id and subject = :subject and period_start = :day::date for no key update)
     update budget_counters c set used = :used from before
     where c.budget_id = :id and c.subject = :subject and c.period_start = :day::date
     returning before.used::text as before`,
    counter,
  );
  return row?.before ?? "0";
}

/**
 * Deletes the budgets of a user and of the user's API keys, and the counters of other budgets for
 * the user.
 */
export async function deleteBudgetsOf({ em }: Db, userId: string): Promise<void> {
  await em.execute("delete from budget_counters where subject = :userId", { userId });
  await em.execute(
    `delete from budgets where scope = 'user' and subject = :userId
     or scope = 'key' and subject in (select id::text from api_keys where user_id = :userId::uuid)`,
    { userId },
  );
}

/** The used share of each budget of the deployment, by unit and period. */
export const deploymentUse = (
  { em }: Db,
  starts: PeriodStarts,
): Promise<{ name: string; ratio: number }[]> =>
  em.execute(
    `select b.unit || '_' || b.period as name, (coalesce(c.used, 0)::float8 / greatest(b.limit_amount, 1)) as ratio
     from budgets b left join budget_counters c on c.budget_id = b.id and c.subject = ''
       and c.period_start = case b.period when 'day' then :day::date else :month::date end
     where b.scope = 'deployment'`,
    starts,
  );
