// Budgets without the services: calls that reserve, and the sums that must agree.

import { v7 as uuid } from "uuid";
import { addCounters, reserveBudgets } from "../../../services/store/budgets.ts";
import type { Store } from "../../../services/store/store.ts";
import type { UsageRow } from "../../../services/store/usage.ts";

/** Periods of every call. */
export const STARTS = { day: "2026-11-28", month: "2026-11-01" };
const NOW = new Date("2026-11-28T12:00:00Z");

/** Inserts a budget of tokens or of nano-units. The subject is empty for the deployment. */
export async function insertBudget(
  store: Pick<Store, "fork">,
  {
    scope,
    subject = "",
    unit = "tokens",
    period = "month",
    limit,
  }: { scope: string; subject?: string; unit?: string; period?: string; limit: number },
): Promise<void> {
  await store.fork().execute(
    `insert into budgets (id, scope, subject, unit, period, limit_amount, created_at)
     values (?, ?, ?, ?, ?, ?, ?)`,
    [uuid(), scope, subject, unit, period, limit, NOW],
  );
}

/** The row of a call that starts. */
export const startedRow = (userId: string, keyId: string | null = null): UsageRow => ({
  id: uuid(),
  user_id: userId,
  api_key_id: keyId,
  alias: null,
  provider: "p",
  model: "m",
  outcome: "running",
  input_tokens: 1,
  output_tokens: 0,
  cached_input_tokens: null,
  cache_write_tokens: null,
  reasoning_tokens: null,
  estimated: true,
  attempts: null,
  cost_nanos: null,
  latency_ms: null,
  first_chunk_ms: null,
  created_at: NOW,
});

/** What a test call asks for. A token of input costs 3 nano-units and one of output 15. */
export type Wish = { row: UsageRow; inputTokens: number; wanted: number; least: number };

/**
 * Reserves for a call, with the counters that are missing.
 * @returns the number of output tokens; null if the call is refused
 */
export async function reserveFor(store: Pick<Store, "query">, wish: Wish): Promise<number | null> {
  const [granted = null] = await reserveTogether(store, [wish]);
  return granted;
}

/**
 * Reserves for calls by one statement, and once more for those that lack counters or are left for
 * others.
 * @returns the number of output tokens of each; null if the call is refused
 */
export async function reserveTogether(
  store: Pick<Store, "query">,
  wishes: readonly Wish[],
): Promise<(number | null)[]> {
  const granted = new Map<Wish, number | null>();
  for (let open = [...wishes]; open.length > 0; open = open.filter((wish) => !granted.has(wish))) {
    const requests = open.map(({ row, inputTokens, wanted, least }) => ({
      ...{ row, starts: STARTS, inputTokens, wanted, least },
      ...{ inputCost: BigInt(3 * inputTokens), outputCost: 15n },
    }));
    const outcomes = await reserveBudgets(store, requests);
    for (const [i, outcome] of outcomes.entries()) {
      if (outcome.rules === 0) throw new Error("no budget limits the call");
      const isDecided = outcome.counters.length === outcome.rules && !outcome.isBehind;
      if (isDecided || outcome.granted !== null) granted.set(open[i] as Wish, outcome.granted);
    }
    await addCounters(store, requests);
  }
  return wishes.map((wish) => granted.get(wish) ?? null);
}

/** The row of a call that has ended, with what it has used. */
export const endedRow = (row: UsageRow, inputTokens: number, outputTokens: number): UsageRow => ({
  ...row,
  outcome: "completed",
  input_tokens: inputTokens,
  output_tokens: outputTokens,
  estimated: false,
  cost_nanos: String(3 * inputTokens + 15 * outputTokens),
});

/** A counter, and the sums of the rows that it must match. */
export type Checked = {
  limit: number;
  used: number;
  reserved: number;
  rowsUsed: number;
  rowsReserved: number;
};

/** All counters. Every row of the database must be of a call that reserved. */
export const checkedCounters = (store: Pick<Store, "fork">): Promise<Checked[]> =>
  store.fork().execute<Checked[]>(
    `select b.limit_amount::float8 as "limit", c.used::float8 as used, c.reserved::float8 as reserved,
       coalesce(sum(case when u.reserved is not null then 0 when b.unit = 'cost' then u.cost_nanos
         else u.input_tokens + u.output_tokens end), 0)::float8 as "rowsUsed",
       coalesce(sum((select (held->>'held')::float8 from jsonb_array_elements(u.reserved->'counters') as held
         where held->>'budget' = b.id::text and held->>'subject' = c.subject)), 0)::float8 as "rowsReserved"
     from budget_counters c join budgets b on b.id = c.budget_id
     left join ai_usage u on case b.scope when 'deployment' then true when 'key' then u.api_key_id::text = c.subject
       else u.user_id::text = c.subject end
     group by b.id, c.subject, c.period_start, c.used, c.reserved, b.limit_amount, b.unit order by b.id, c.subject`,
  );

/** What is wrong with the counters: more than a limit, or another sum than that of the rows. */
export const faultsIn = (counters: readonly Checked[]): Checked[] =>
  counters.filter(
    ({ limit, used, reserved, rowsUsed, rowsReserved }) =>
      used + reserved > limit || used !== rowsUsed || reserved !== rowsReserved || reserved < 0,
  );
