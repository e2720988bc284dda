import { setImmediate } from "node:timers/promises";
import { v7 as uuid } from "uuid";
import { expect, test } from "vitest";
import { findLostCalls, settleUsage } from "../../../services/store/budgets.ts";
import type { Store } from "../../../services/store/store.ts";
import type { UsageRow } from "../../../services/store/usage.ts";
import {
  checkedCounters,
  endedRow,
  faultsIn,
  insertBudget,
  reserveFor,
  reserveTogether,
  startedRow,
  type Wish,
} from "../../support/database/budgets.ts";
import { createDatabase, runSql } from "../../support/database/databases.ts";
import { insertUsers, openQuietStore } from "../../support/database/store.ts";
import { forTest } from "../../support/suites.ts";
import { times } from "../../support/tally.ts";

const FULL = process.env.TEST_FULL !== undefined;
const NOW = new Date("2026-11-28T12:00:00Z");

/** Numbers from 0 to 1 that depend on a seed (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
const upTo = (most: number, random: () => number) => Math.floor(random() * (most + 1));
const pick = <T>(items: readonly T[], random: () => number): T =>
  items[Math.floor(random() * items.length)] as T;

/** Users with a budget each, of the deployment and of the role, in both units. */
async function prepare(store: Store, users: number, limit: number): Promise<string[]> {
  await store.migrate();
  const ids = await insertUsers(store, users);
  await insertBudget(store, { scope: "deployment", unit: "cost", limit: limit * 40 });
  await insertBudget(store, { scope: "role", subject: "user", period: "day", limit });
  for (const subject of ids) await insertBudget(store, { scope: "user", subject, limit });
  return ids;
}

test("Budgets: hold and count exactly what calls reserve and use, however their ends arrive: twice, late, never, or after a loss", async () => {
  const store = await forTest(openQuietStore());
  const users = await prepare(store, 3, 4_000);
  const random = randomOf(Number(process.env.FUZZ_SEED ?? 1));
  const open: Wish[] = [];
  const ended: UsageRow[] = [];
  const settle = (...rows: UsageRow[]) => settleUsage(store, rows, NOW);
  const end = (wish: Wish) =>
    endedRow(wish.row, upTo(wish.inputTokens, random), upTo(wish.wanted, random));
  const wishOf = (): Wish => {
    const least = 1 + upTo(100, random);
    const wanted = least + upTo(400, random);
    return {
      ...{ row: startedRow(pick(users, random)), inputTokens: upTo(300, random) },
      ...{ wanted, least },
    };
  };
  const steps = {
    async reserve() {
      const wishes = times(1 + upTo(4, random), wishOf);
      for (const [i, granted] of (await reserveTogether(store, wishes)).entries())
        if (granted !== null) open.push({ ...(wishes[i] as Wish), wanted: granted });
    },
    async settle() {
      const [wish] = open.splice(upTo(open.length - 1, random), 1);
      if (!wish) return;
      ended.push(end(wish));
      await settle(ended.at(-1) as UsageRow);
    },
    async settleSome() {
      const rows = open.splice(0, 3).map(end);
      ended.push(...rows);
      if (rows.length > 0) await settle(...rows);
    },
    async settleTwice() {
      if (ended.length > 0) await settle(pick(ended, random));
    },
    async progress() {
      const wish = open[0];
      if (wish) await settle({ ...wish.row, output_tokens: upTo(wish.wanted, random) });
    },
    /** The job for lost calls takes some; their ends arrive later, or never. */
    async lose() {
      const before = new Date(NOW.getTime() + 1);
      const lost = await findLostCalls({ em: store.fork() }, { from: NOW, before, limit: 2 });
      await settle(...lost);
      const ids = new Set(lost.map(({ id }) => id));
      const late = open.filter(({ row }) => ids.has(row.id)).map(end);
      if (random() < 0.5) ended.push(...late);
    },
  };
  const names = Object.keys(steps) as (keyof typeof steps)[];
  const counts = { granted: 0 };
  for (let step = 0; step < (FULL ? 2_000 : 100); step++) {
    await steps[random() < 0.5 ? "reserve" : pick(names, random)]();
    const counters = await checkedCounters(store);
    expect(faultsIn(counters), `after step ${step}`).toEqual([]);
    counts.granted = counters.reduce((sum, { used }) => sum + used, 0);
  }
  expect(counts.granted).toBeGreaterThan(0);
});

/** Calls that race for the budgets of a few users, from two pools of connections. */
async function race(stores: readonly [Store, Store], calls: number) {
  const users = await prepare(stores[0], 4, calls * 25); // for a third of the calls of a user
  const outcomes = await Promise.all(
    times(calls, async (i) => {
      const store = stores[(i % 2) as 0 | 1];
      const row = startedRow(users[i % users.length] as string);
      const granted = await reserveFor(store, { row, inputTokens: 200, wanted: 100, least: 100 });
      if (granted === null) return "refused";
      await setImmediate();
      if (i % 3 === 0) return "never settled";
      const ended = endedRow(row, 10 + (i % 7), i % 100);
      await settleUsage(store, [ended], NOW);
      if (i % 5 === 0) await settleUsage(stores[0], [ended], NOW);
      return "settled";
    }),
  );
  return outcomes;
}

test("Budgets: of calls that one statement reserves for, only those are refused that do not fit", async () => {
  const random = randomOf(Number(process.env.FUZZ_SEED ?? 1));
  const store = await forTest(openQuietStore());
  const users = await prepare(store, 3, 4_000);
  const wishes = times(40, (i): Wish => {
    const [inputTokens, least] = [50 + upTo(400, random), 50 + upTo(200, random)];
    const row = startedRow(users[i % 3] as string);
    return { row, inputTokens, wanted: least + upTo(200, random), least };
  });
  const granted = await reserveTogether(store, wishes);
  expect(faultsIn(await checkedCounters(store))).toEqual([]);
  expect(granted.some((output, i) => output === wishes[i]?.wanted)).toBe(true);
  const refused = wishes.filter((_, i) => granted[i] === null);
  expect(refused.length).toBeGreaterThan(0);
  for (const wish of refused) {
    const again = { ...wish, row: startedRow(wish.row.user_id), wanted: wish.least };
    expect(await reserveFor(store, again)).toBeNull();
  }
});

test("Budgets: a lost call with more tokens than a count can hold is recorded with its cost", async () => {
  const store = await forTest(openQuietStore());
  await store.migrate();
  const [userId = ""] = await insertUsers(store, 1);
  await insertBudget(store, { scope: "user", subject: userId, unit: "cost", limit: 1e13 });
  await reserveFor(store, {
    ...{ row: startedRow(userId), inputTokens: 3_000_000_000, wanted: 1, least: 1 },
  });
  const before = new Date(NOW.getTime() + 1);
  const lost = await findLostCalls({ em: store.fork() }, { from: NOW, before, limit: 2 });
  expect(lost).toMatchObject([{ input_tokens: 2 ** 31 - 1, cost_nanos: "9000000015" }]);
  await settleUsage(store, lost, NOW);
  expect(await checkedCounters(store)).toMatchObject([{ used: 9_000_000_015, reserved: 0 }]);
});

test("Budgets: concurrent calls never exceed a budget, on the embedded database", async () => {
  const store = await forTest(openQuietStore());
  const outcomes = await race([store, store], 60);
  expect(faultsIn(await checkedCounters(store))).toEqual([]);
  expect(new Set(outcomes)).toEqual(new Set(["refused", "settled", "never settled"]));
});

test.runIf(process.env.TEST_SERVERS)(
  "Budgets: 1,000 concurrent calls over two pools never exceed a budget, and never deadlock",
  async () => {
    for (let round = 0; round < (FULL ? 20 : 1); round++) {
      const url = await createDatabase(uuid().slice(-8));
      const stores = [await openQuietStore(url), await openQuietStore(url)] as const;
      const outcomes = await race(stores, 1_000);
      expect(faultsIn(await checkedCounters(stores[0]))).toEqual([]);
      expect(new Set(outcomes)).toEqual(new Set(["refused", "settled", "never settled"]));
      const [stat] = await runSql(
        url,
        "select deadlocks::int from pg_stat_database where datname = current_database()",
      );
      expect(stat).toEqual({ deadlocks: 0 });
      await Promise.all(stores.map((store) => store.close()));
    }
  },
);
