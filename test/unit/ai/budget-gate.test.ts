import { v7 as uuid } from "uuid";
import { expect, test, vi } from "vitest";
import { createBudgetGate } from "../../../services/ai/budgets/gate.ts";
import { createPeriods } from "../../../services/ai/budgets/periods.ts";
import type { Prompt } from "../../../services/ai/providers/provider.ts";
import { createMetrics } from "../../../services/metrics.ts";
import { systemClock } from "../../../services/platform/process/clock.ts";
import type { Store } from "../../../services/store/store.ts";
import { insertBudget, startedRow } from "../../support/database/budgets.ts";
import { insertUsers, openQuietStore } from "../../support/database/store.ts";
import { silent } from "../../support/log.ts";
import { forTest } from "../../support/suites.ts";
import { times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";

const model = { name: "m", outputTokens: 500, overheadTokens: 0, imageTokens: 0 };
const promptOf = (text: string, maxTokens = 100) =>
  ({
    ...{ model, isStream: false, maxTokens },
    messages: [{ role: "user", parts: [{ text }] }],
  }) as unknown as Prompt;

/** Of a caller who does not leave. */
const STAYS = new AbortController().signal;
const RATES = { input: 0n, cachedInput: 0n, cacheWrite: 0n, cacheWrite1h: 0n, output: 0n };
const FREE = [{ ...RATES, above: 0 }];

/** A gate on a store, with the names of the statements that it has run. */
async function openGate(
  store: Store,
  isAway = () => false,
  held = () => Promise.resolve(),
  settleEnded = () => Promise.resolve(),
) {
  const statements: string[] = [];
  const query: Store["query"] = async (statement, values) => {
    statements.push(statement.name);
    if (statement.name === "reserve_budgets") await held();
    return isAway()
      ? Promise.reject(Object.assign(new Error("away"), { code: "ECONNREFUSED" }))
      : store.query(statement, values);
  };
  const exceeded: string[] = [];
  const gate = createBudgetGate({
    ...{ db: { query }, clock: systemClock, log: silent, currency: "USD" },
    leastNeeds: { tokens: 2n, cost: 0n },
    periodsOf: createPeriods("UTC"),
    onExceeded: (counters) => exceeded.push(...counters.map(({ subject }) => subject)),
    settleEnded,
  });
  const metrics = createMetrics();
  const [userId = ""] = await insertUsers(store, 1);
  const reserve = (text: string, maxTokens?: number) =>
    gate.reserve(startedRow(userId), [promptOf(text, maxTokens)], metrics, STAYS);
  /** Throws the error with which a port refuses a call by its headers. */
  const refuseCaller = (of = userId) => {
    const refusal = gate.refusalOf({ userId: of, keyId: "key" }, metrics);
    if (refusal) throw refusal();
  };
  const count = (name: string) => statements.filter((each) => each === name).length;
  const own = { gate, reserve, refuseCaller, count, exceeded, userId, metrics };
  return await forTest({ ...own, close: gate.close });
}

async function insertOther(store: Store): Promise<string> {
  const email = "other@example.com";
  const [userId = ""] = await insertUsers(store, 1, { email, canonicalEmail: email });
  return userId;
}

async function openMigrated(): Promise<Store> {
  const store = await forTest(openQuietStore());
  await store.migrate();
  return store;
}

test("Budget gate: does not query the database while no budget exists", async () => {
  const { reserve, count } = await openGate(await openMigrated());
  await until("the table to be read", () => count("budgets_exist") > 0);
  await until("a call to pass unasked", async () => {
    const before = count("reserve_budgets");
    expect(await reserve("hello")).toBeUndefined();
    return count("reserve_budgets") === before;
  });
});

test("Budget gate: remembers a refusal for calls that need as much, and queries for others", async () => {
  const store = await openMigrated();
  const { gate, reserve, count, exceeded, userId, metrics } = await openGate(store);
  await insertBudget(store, { scope: "user", subject: userId, limit: 200 });
  gate.forget();
  await expect(reserve("hello", 190)).rejects.toThrow("budget");
  const before = count("reserve_budgets");
  const refused = await Promise.allSettled(times(100, (i) => reserve("hello", 190 + i)));
  expect(refused.every(({ status }) => status === "rejected")).toBe(true);
  expect(count("reserve_budgets")).toBe(before);
  expect(await reserve("hello", 10)).toMatchObject({ outputTokens: 10 });
  expect(exceeded).toEqual([]); // the call needs more than the whole budget
  expect(await metrics.registry.metrics()).toContain(
    'gatehouse_budget_refusals_total{scope="user"} 101',
  );
});

test("Budget gate: queries once for a flood of refused calls each time a refusal expires", async () => {
  const store = await openMigrated();
  const { gate, reserve, count, userId } = await openGate(store);
  await insertBudget(store, { scope: "user", subject: userId, limit: 200 });
  gate.forget();
  await expect(reserve("hello", 190)).rejects.toThrow("budget");
  const flood = () => Promise.allSettled(times(100, () => reserve("hello", 190)));
  const before = count("reserve_budgets");
  const elapsed = vi.spyOn(performance, "now").mockReturnValue(performance.now() + 1_001);
  const refused = await flood();
  expect(refused.every(({ status }) => status === "rejected")).toBe(true);
  expect(count("reserve_budgets")).toBe(before + 1);
  await store.fork().execute("update budgets set limit_amount = 1000000");
  elapsed.mockReturnValue(performance.now() + 1_001);
  expect(await reserve("hello", 190)).toMatchObject({ outputTokens: 190 });
  const passed = await flood();
  elapsed.mockRestore();
  expect(passed.every(({ status }) => status === "fulfilled")).toBe(true);
});

test("Budget gate: forgets the refusals of a budget that another process has deleted", async () => {
  const store = await openMigrated();
  const { gate, reserve, refuseCaller, userId } = await openGate(store);
  await insertBudget(store, { scope: "user", subject: userId, limit: 0 });
  await insertBudget(store, { scope: "user", subject: uuid(), limit: 0 }); // so that there are budgets
  gate.forget();
  await expect(reserve("hello")).rejects.toThrow("budget");
  await store.fork().execute("delete from budgets where subject = ?", [userId]);
  const elapsed = vi.spyOn(performance, "now").mockReturnValue(performance.now() + 1_001);
  expect(await reserve("hello")).toBeUndefined();
  expect(await reserve("hello")).toBeUndefined();
  expect(refuseCaller).not.toThrow();
  elapsed.mockRestore();
});

test("Budget gate: calls that their user's budget refuses keep no refusal of other users in force", async () => {
  const store = await openMigrated();
  const { gate, reserve, refuseCaller, userId, metrics } = await openGate(store);
  const other = await insertOther(store);
  const reserveForOther = () =>
    gate.reserve(startedRow(other), [promptOf("hello", 100)], metrics, STAYS);
  await insertBudget(store, { scope: "deployment", limit: 0 });
  await insertBudget(store, { scope: "user", subject: userId, limit: 0 });
  gate.forget();
  await expect(reserveForOther()).rejects.toThrow("budget of this service");
  await expect(reserve("hello")).rejects.toThrow("budget of this service");
  await store.fork().execute("update budgets set limit_amount = 1000 where scope = 'deployment'");
  const elapsed = vi.spyOn(performance, "now").mockReturnValue(performance.now() + 1_001);
  await expect(reserve("hello")).rejects.toThrow("Your monthly budget");
  expect(refuseCaller).toThrow("Your monthly budget");
  expect(() => refuseCaller(other)).not.toThrow();
  expect(await reserveForOther()).toMatchObject({ outputTokens: 100 });
  elapsed.mockRestore();
});

test("Budget gate: calls of models without a price keep no refusal of other users in force", async () => {
  const store = await openMigrated();
  const { gate, reserve, userId, metrics } = await openGate(store);
  const other = await insertOther(store);
  const reserveForOther = () =>
    gate.reserve(startedRow(other), [promptOf("hello", 100)], metrics, STAYS);
  await insertBudget(store, { scope: "deployment", limit: 0 });
  gate.forget();
  await expect(reserveForOther()).rejects.toThrow("budget of this service");
  await insertBudget(store, { scope: "user", subject: userId, unit: "cost", limit: 200 });
  await store.fork().execute("update budgets set limit_amount = 1000 where scope = 'deployment'");
  const elapsed = vi.spyOn(performance, "now").mockReturnValue(performance.now() + 1_001);
  await expect(reserve("hello")).rejects.toThrow("The model m has no price");
  expect(await reserveForOther()).toMatchObject({ outputTokens: 100 });
  elapsed.mockRestore();
});

test("Budget gate: queries for a refused call once the refusal expires, even if it has to wait", async () => {
  const store = await openMigrated();
  let held = Promise.resolve();
  const { gate, reserve, count, userId, metrics } = await openGate(
    ...[store, () => false, () => held],
  );
  const other = await insertOther(store);
  await insertBudget(store, { scope: "user", subject: userId, limit: 0 });
  gate.forget();
  await expect(reserve("hello")).rejects.toThrow("budget");
  await store.fork().execute("update budgets set limit_amount = 1000");
  const elapsed = vi.spyOn(performance, "now").mockReturnValue(performance.now() + 1_001);
  const release = Promise.withResolvers<void>();
  held = release.promise;
  const busy = gate.reserve(startedRow(other), [promptOf("hello")], metrics, STAYS);
  const before = count("reserve_budgets");
  const waiting = Promise.allSettled(times(3, () => reserve("hello")));
  release.resolve();
  await busy;
  const outcomes = (await waiting).map(({ status }) => status);
  expect(outcomes).toEqual(["fulfilled", "rejected", "rejected"]); // one asks for all
  expect(await reserve("hello")).toMatchObject({ outputTokens: 100 });
  expect(count("reserve_budgets")).toBe(before + 2);
  elapsed.mockRestore();
});

test("Budget gate: refuses callers of a used-up budget without their calls, for a second", async () => {
  const store = await openMigrated();
  const { gate, reserve, refuseCaller: refuse, userId, metrics } = await openGate(store);
  await insertBudget(store, { scope: "user", subject: userId, limit: 200 });
  gate.forget();
  await reserve("hello", 10);
  const use = (used: number) =>
    store.fork().execute("update budget_counters set used = ?, reserved = 0", [used]);
  await use(150);
  await expect(reserve("hello", 100)).rejects.toThrow("budget");
  expect(refuse).not.toThrow(); // smaller calls fit
  await use(199);
  await expect(reserve("hello", 99)).rejects.toThrow("budget");
  expect(refuse).toThrow("Your monthly budget of 200 tokens is not enough for this call");
  expect(() => refuse(uuid())).not.toThrow();
  expect(await metrics.registry.metrics()).toContain(
    'gatehouse_budget_refusals_total{scope="user"} 3',
  );
  const elapsed = vi.spyOn(performance, "now").mockReturnValue(performance.now() + 1_001);
  expect(refuse).not.toThrow();
  await expect(reserve("hello", 99)).rejects.toThrow("budget");
  elapsed.mockRestore();
  expect(refuse).toThrow("budget");
  await use(0);
  await reserve("hello", 10); // less than any call that was refused
  expect(refuse).not.toThrow();
});

test("Budget gate: refuses no caller without its call because other calls hold the budget", async () => {
  const store = await openMigrated();
  const { gate, reserve, refuseCaller, userId } = await openGate(store);
  await insertBudget(store, { scope: "user", subject: userId, limit: 200 });
  gate.forget();
  await reserve("hello", 158); // all of it
  await expect(reserve("hello", 10)).rejects.toThrow("reserved for calls in progress");
  expect(refuseCaller).not.toThrow();
});

test("Budget gate: remembers that calls of a user require a price, and names the model of each call", async () => {
  const store = await openMigrated();
  const { gate, reserve, count, userId, metrics } = await openGate(store);
  await insertBudget(store, { scope: "user", subject: userId, unit: "cost", limit: 200 });
  gate.forget();
  await expect(reserve("hello")).rejects.toThrow("The model m has no price");
  const before = count("reserve_budgets");
  const other = { ...promptOf("hello"), model: { ...model, name: "other" } } as unknown as Prompt;
  const [free] = [{ ...promptOf("hello"), model: { ...model, price: FREE } } as unknown as Prompt];
  for (const prompts of [[other], [free, other]] as const)
    await expect(gate.reserve(startedRow(userId), prompts, metrics, STAYS)).rejects.toThrow(
      "The model other has no price",
    );
  expect(count("reserve_budgets")).toBe(before);
  expect(await gate.reserve(startedRow(userId), [free], metrics, STAYS)).toMatchObject({
    cost: 0n,
  });
});

test("Budget gate: grants no model of an alias less than the call's own maximum", async () => {
  const store = await openMigrated();
  const { gate, userId, metrics } = await openGate(store);
  await insertBudget(store, { scope: "user", subject: userId, limit: 450 });
  gate.forget();
  const short = { ...promptOf("hello", 500), model: { ...model, outputTokens: 100 } };
  const prompts = [promptOf("hello", 500), short as unknown as Prompt] as const;
  await expect(gate.reserve(startedRow(userId), prompts, metrics, STAYS)).rejects.toThrow("budget");
  const [, ofShort] = prompts;
  expect(await gate.reserve(startedRow(userId), [ofShort], metrics, STAYS)).toMatchObject({
    outputTokens: 100,
  });
});

test("Budget gate: a call whose caller disconnects while it waits for others reserves nothing", async () => {
  const store = await openMigrated();
  const held = Promise.withResolvers<void>();
  const { gate, reserve, count, userId, metrics } = await openGate(
    ...[store, () => false, () => held.promise],
  );
  await insertBudget(store, { scope: "user", subject: userId, limit: 10_000 });
  gate.forget();
  const others = times(5, () => reserve("hello"));
  const leaving = new AbortController();
  const row = startedRow(userId);
  const waiting = gate.reserve(row, [promptOf("hello")], metrics, leaving.signal);
  leaving.abort(new Error("left"));
  held.resolve();
  await expect(waiting).rejects.toThrow("left");
  expect(await Promise.all(others)).toMatchObject(times(5, () => ({ outputTokens: 100 })));
  expect(count("reserve_budgets")).toBeGreaterThanOrEqual(2);
  const rows = await store.fork().execute("select id from ai_usage where id = ?", [row.id]);
  expect(rows).toEqual([]);
});

test("Budget gate: calls that wait for another one share a statement, and get exactly what is left", async () => {
  const store = await openMigrated();
  const { gate, reserve, count, userId } = await openGate(store);
  await insertBudget(store, { scope: "user", subject: userId, limit: 142 * 20 + 100 });
  gate.forget();
  await reserve("hello"); // and adds the counter
  const before = count("reserve_budgets");
  const calls = await Promise.allSettled(times(15, () => reserve("hello"))); // of 142 tokens each
  expect(calls.every(({ status }) => status === "fulfilled")).toBe(true);
  expect(count("reserve_budgets")).toBeLessThanOrEqual(before + 2);
  const scarce = await Promise.allSettled(times(15, () => reserve("hello")));
  expect(scarce.filter(({ status }) => status === "fulfilled")).toHaveLength(4);
  expect(await reserve("hello", 58)).toMatchObject({ outputTokens: 58 });
});

test("Budget gate: reports once that a budget no longer suffices", async () => {
  const store = await openMigrated();
  const { gate, reserve, exceeded, userId } = await openGate(store);
  await insertBudget(store, { scope: "user", subject: userId, limit: 200 });
  gate.forget();
  await reserve("hello", 10);
  await store.fork().execute("update budget_counters set used = 150, reserved = 0");
  for (const most of [90, 80, 70]) await expect(reserve("hello", most)).rejects.toThrow("budget");
  expect(exceeded).toEqual([userId]);
});

test("Budget gate: books calls that have ended before it refuses one because of what they hold", async () => {
  const store = await openMigrated();
  const release = () =>
    store.fork().execute("update budget_counters set used = used + 1, reserved = 0");
  const settled = vi.fn(async () => void (await release()));
  const { gate, reserve, count, userId } = await openGate(store, undefined, undefined, settled);
  await insertBudget(store, { scope: "user", subject: userId, limit: 1_000 });
  gate.forget();
  for (const calls of [1, 2, 3]) {
    expect(await reserve("hello", 500)).toMatchObject({ outputTokens: 500 });
    expect(settled).toHaveBeenCalledTimes(calls - 1);
  }
  settled.mockImplementation(async () => {});
  const before = count("reserve_budgets");
  for (let i = 0; i < 3; i++)
    await expect(reserve("hello", 500)).rejects.toThrow("reserved for calls in progress");
  // at once, with what this process has booked, and with what others have; then the refusal is known
  expect(count("reserve_budgets")).toBe(before + 3);
});

test("Budget gate: a call gets what another process books shortly afterwards", async () => {
  const store = await openMigrated();
  const settled = vi.fn(async () => {});
  const { gate, reserve, count, userId } = await openGate(store, undefined, undefined, settled);
  await insertBudget(store, { scope: "user", subject: userId, limit: 1_000 });
  gate.forget();
  await reserve("hello", 500);
  const asked = count("reserve_budgets");
  const next = reserve("hello", 500);
  await until("the second attempt", () => count("reserve_budgets") === asked + 2);
  await store.fork().execute("update budget_counters set used = used + 1, reserved = 0");
  expect(await next).toMatchObject({ outputTokens: 500 });
});

test("Budget gate: a call that is too large does not mark a budget as used up while most of it is left", async () => {
  const store = await openMigrated();
  const { gate, reserve, exceeded, userId } = await openGate(store);
  await insertBudget(store, { scope: "user", subject: userId, limit: 1_000 });
  gate.forget();
  await reserve("hello", 10);
  const use = (used: number) =>
    store.fork().execute("update budget_counters set used = ?, reserved = 0", [used]);
  await use(490);
  await expect(reserve("hello", 500)).rejects.toThrow(
    "the call may use more than what is left (510 tokens)",
  );
  expect(exceeded).toEqual([]);
  await use(500);
  await expect(reserve("hello", 490)).rejects.toThrow(
    "the call may use more than what is left (500 tokens)",
  );
  expect(exceeded).toEqual([userId]);
});

test("Budget gate: refuses calls while the database is unavailable, even if no budget was known", async () => {
  let isAway = false;
  const { reserve, count } = await openGate(await openMigrated(), () => isAway);
  await until("a call to pass unasked", async () => {
    const before = count("reserve_budgets");
    await reserve("hello");
    return count("reserve_budgets") === before;
  });
  isAway = true;
  const known = count("budgets_exist");
  await until("the table to be read in vain", () => count("budgets_exist") > known);
  await expect(reserve("hello")).rejects.toMatchObject({ code: "ECONNREFUSED" });
});
