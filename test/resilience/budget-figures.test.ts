// How much budgets bear: these take minutes, and the machine for themselves.

import { setTimeout as wait } from "node:timers/promises";
import { v7 as uuid } from "uuid";
import { expect, test } from "vitest";
import { createBudgetGate } from "../../services/ai/budgets/gate.ts";
import { createPeriods } from "../../services/ai/budgets/periods.ts";
import type { Prompt } from "../../services/ai/providers/provider.ts";
import { openUsageLedger } from "../../services/ai/usage.ts";
import { createMetrics } from "../../services/metrics.ts";
import { createApiKey } from "../../services/platform/gate/api-key.ts";
import { systemClock } from "../../services/platform/process/clock.ts";
import { budgetCatalogue } from "../support/ai/budget-catalogue.ts";
import { startMeteredProvider } from "../support/ai/metered-provider.ts";
import { runElsewhere } from "../support/attacks/attack.ts";
import { callSteadily, type SteadyAnswers } from "../support/attacks/steady-calls.ts";
import { checkedCounters, faultsIn, insertBudget } from "../support/database/budgets.ts";
import { runSql } from "../support/database/databases.ts";
import { POSTGRES_BIN, startPostgresServer } from "../support/database/postgres-server.ts";
import { insertUsers, openQuietStore } from "../support/database/store.ts";
import { silent } from "../support/log.ts";
import { sharedVariables, startProcess } from "../support/processes/processes.ts";
import { describeIf, forSuite, forTest } from "../support/suites.ts";
import { times } from "../support/tally.ts";

const MODEL = { name: "m", outputTokens: 500, overheadTokens: 0, imageTokens: 0, fileTokens: 0 };
const PROMPT = {
  ...{ model: MODEL, isStream: false, maxTokens: 100 },
  messages: [{ role: "user", parts: [{ text: "hello" }] }],
} as unknown as Prompt;
const SECONDS = 10;
const FLOOD = new URL("../support/attacks/flood.ts", import.meta.url);
/** PostgreSQL publishes the statistics of an idle connection after 10 s. */
const STATISTICS_MS = 11_000;

describeIf(POSTGRES_BIN && process.env.TEST_FULL, "Figures of budgets", async () => {
  const postgres = await forSuite(startPostgresServer());

  test("a budget of the deployment stays exact while two processes reserve as fast as possible", async () => {
    const store = await forTest(openQuietStore(postgres.url));
    await store.migrate();
    const [userId = ""] = await insertUsers(store, 1);
    await insertBudget(store, { scope: "deployment", limit: 1e12 });
    const stays = new AbortController().signal;
    const metrics = createMetrics();
    let admitted = 0;
    const until = performance.now() + SECONDS * 1_000;
    const run = async () => {
      const own = await openQuietStore(postgres.url);
      const ledger = openUsageLedger(own, systemClock, silent);
      const gate = createBudgetGate({
        ...{ db: own, clock: systemClock, log: silent, currency: "USD" },
        leastNeeds: { tokens: 2n, cost: 0n },
        periodsOf: createPeriods("UTC"),
        onExceeded: () => {},
        settleEnded: ledger.flush,
      });
      const call = async () => {
        const start = { userId, provider: "p", model: "m", inputTokens: 2 };
        while (performance.now() < until) {
          const usage = ledger.prepare(start);
          const reservation = await gate.reserve(usage.row(), [PROMPT], metrics, stays);
          if (!reservation) throw new Error("no budget limits the call");
          usage.begin(reservation);
          usage.observe({ kind: "sending", isUnread: () => false });
          usage.observe({ kind: "text", text: "12345678", decodingMs: 0 });
          usage.finish("completed");
          admitted++;
        }
      };
      await Promise.all(times(20, call));
      await ledger.flush();
      await gate.close();
      await own.close();
    };
    await Promise.all([run(), run()]);
    process.stdout.write(`${(admitted / SECONDS).toFixed(0)} admitted calls a second\n`);
    expect(admitted).toBeGreaterThan(0);
    expect(faultsIn(await checkedCounters(store))).toEqual([]);
  });

  test("1,000 refused calls a second of one user fail no other call, and query the database at most twice a second", async () => {
    const provider = await forTest(startMeteredProvider());
    const own = await forTest(startPostgresServer());
    const { url, close } = await startProcess({
      ...sharedVariables(),
      ...provider.env,
      AI_CATALOG: budgetCatalogue(),
      RATE_LIMITS: "off",
      DATABASE_URL: own.url,
      SHUTDOWN_TIMEOUT: "1s",
    });
    await forTest({ close });
    const store = await openQuietStore(own.url);
    const keyOf = async (limit?: number) => {
      const email = `${uuid()}@example.com`;
      const [userId = ""] = await insertUsers(store, 1, { email, canonicalEmail: email });
      const { key, digest, hint } = createApiKey();
      await store
        .fork()
        .execute(
          `insert into api_keys (id, user_id, digest, hint, name, created_at, created_by) values (?, ?, decode(?, 'hex'), ?, 'CI', now(), ?)`,
          [uuid(), userId, digest, hint, userId],
        );
      if (limit !== undefined) await insertBudget(store, { scope: "user", subject: userId, limit });
      return key;
    };
    const refused = await keyOf(0);
    const others = await Promise.all(times(10, () => keyOf()));
    await store.close();
    await wait(1_000); // a process reads every 750 ms whether there is a budget
    const load = (keys: readonly string[], perSecond: number, seconds = SECONDS) => ({
      ...{ url, keys, perSecond, seconds },
    });
    const refuseOne = () => callSteadily(load([refused], 1, 1));
    /** Scans of the counters, which only reservations and settlements make. */
    const scans = async () => {
      const [row] = await runSql<{ scans: number }>(
        own.url,
        "select (seq_scan + idx_scan)::int as scans from pg_stat_user_tables where relname = 'budget_counters'",
      );
      return row?.scans ?? 0;
    };
    await callSteadily(load(others, 50)); // warms up
    const before = await callSteadily(load(others, 50));
    await refuseOne();
    await wait(STATISTICS_MS); // until it is forgotten, and in the statistics of PostgreSQL
    const idle = await scans();
    await refuseOne();
    await wait(STATISTICS_MS);
    const scansBefore = await scans();
    const ofStatement = scansBefore - idle;
    expect(ofStatement).toBeGreaterThan(0);
    const flooding = runElsewhere(FLOOD, load([refused], 1_000));
    const during = await callSteadily(load(others, 50));
    const flood: SteadyAnswers = JSON.parse(await flooding);
    await wait(STATISTICS_MS);
    const statements = ((await scans()) - scansBefore) / ofStatement / SECONDS;
    process.stdout.write(`${JSON.stringify({ before, during, flood, statements })}\n`);
    expect([before.statuses, during.statuses, flood.statuses]).toEqual([[200], [200], [429]]);
    expect(flood.perSecond).toBeGreaterThan(990);
    expect(statements).toBeLessThanOrEqual(2);
  });
});
