import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { v7 as uuid } from "uuid";
import { expect, onTestFinished, test, vi } from "vitest";
import { eraseUser } from "../../../services/accounts/erase-user.ts";
import { listUsage } from "../../../services/ai/list-usage.ts";
import { openUsageLedger } from "../../../services/ai/usage.ts";
import { type AppContext, systemCall } from "../../../services/call.ts";
import type { Config } from "../../../services/platform/config/config.ts";
import type { Store } from "../../../services/store/store.ts";
import { rollUpUsage, type UsageRow, upsertUsage } from "../../../services/store/usage.ts";
import { createMigratedDatabase } from "../../support/database/databases.ts";
import { insertUsers, openQuietStore } from "../../support/database/store.ts";
import { begin } from "../../support/database/transaction.ts";
import { silent } from "../../support/log.ts";
import { forSuite, forTest } from "../../support/suites.ts";
import { times } from "../../support/tally.ts";

const onServers = test.runIf(process.env.TEST_SERVERS);
const clock = { now: () => new Date("2026-11-21T12:00:00Z") };

/** Opens an empty database and a ledger on it. */
async function openUsage(url?: string) {
  const store = await openQuietStore(url);
  await store.migrate();
  const sql = <T>(text: string, values: unknown[] = []) => store.fork().execute<T[]>(text, values);
  const usage = openUsageLedger(store, clock, silent);
  /**
   * Adds a user.
   * @returns the start of its calls
   */
  const newCall = async () => {
    const email = uuid();
    const [userId = ""] = await insertUsers(store, 1, { email, canonicalEmail: email });
    return { userId, provider: "p", model: "m", inputTokens: 2 };
  };
  const rowsOf = async ({ userId }: { userId: string }) => {
    await usage.flush();
    return sql("select outcome, input_tokens, output_tokens from ai_usage where user_id = ?", [
      userId,
    ]);
  };
  const erase = (userId: string) => {
    const call = systemCall({ clock } as AppContext, store, "request");
    return call.em.transactional(() => eraseUser(call, userId));
  };
  return { store, sql, usage, newCall, rowsOf, erase, close: () => store.close() };
}

const { store, sql, usage, newCall, rowsOf, erase } = await forSuite(openUsage());

test("Usage: a page of the usage of all users reads only the days that it shows", async () => {
  onTestFinished(async () => void (await sql("delete from ai_usage where provider = 'p'")));
  for (const days of [100, 150, 200, 250, 300]) {
    await sql(
      `insert into ai_usage (id, provider, model, outcome, created_at)
       select gen_random_uuid(), 'p', 'model ' || n, 'completed', ?::timestamptz - ?::int * interval '1 day' from generate_series(1, 6000) as n`,
      [clock.now(), days],
    );
  }
  await sql("update ai_usage_summing set summed_from = '-infinity'"); // no earlier release has written calls
  await sql("analyze ai_usage");
  await store.fork().transactional(async (em) => {
    const [from, to] = [360, 90].map((days) =>
      timestampFromMs(clock.now().getTime() - days * 86_400_000),
    );
    const ai = { usage, catalogue: { currency: "USD" } };
    const call = { em, clock, config: { usageRetentionMs: 0 } as Config, ai };
    const page = await listUsage(call, { from, to });
    expect([page.length, new Set(page.map(({ day }) => day)).size]).toEqual([1_000, 1]);
    const [read] = await em.execute<{ rows: number }[]>(
      "select (seq_tup_read + idx_tup_fetch)::int as rows from pg_stat_xact_user_tables where relname = 'ai_usage'",
    );
    expect(read?.rows).toBeLessThan(15_000);
  });
});

onServers("Usage: a write waits for the erasure of its account, and not the reverse", async () => {
  const url = await createMigratedDatabase();
  const onServer = await forTest(openUsage(url));
  const call = await onServer.newCall();
  const open = onServer.usage.start(call);
  await onServer.usage.flush();
  const erasure = await begin(url, "select 1 from users where id = $1 for update", [call.userId]);
  open.finish("completed");
  onServer.usage.start(call);
  const written = onServer.usage.flush();
  await erasure.toBeWaitedFor();
  await erasure.run("delete from users where id = $1", [call.userId]);
  await erasure.commit();
  await written;
  const rows = await onServer.sql("select user_id, outcome from ai_usage order by outcome");
  expect(rows).toEqual(["completed", "running"].map((outcome) => ({ user_id: null, outcome })));
});

onServers(
  "Usage: roll-ups concurrent with erasures and late records lose no call and count none twice",
  async () => {
    const url = await createMigratedDatabase();
    const { store, sql, newCall, erase } = await forTest(openUsage(url));
    const users = await Promise.all(times(30, async () => (await newCall()).userId));
    await sql(
      `insert into ai_usage (id, user_id, provider, model, outcome, input_tokens, estimated, created_at)
       select gen_random_uuid(), id, 'p', 'model ' || n % 3, 'completed', n, n % 2 = 0, '2026-01-01Z'::timestamptz + n * interval '3 minutes'
       from users, generate_series(1, 1000) as n`,
    );
    const [late] = await sql<UsageRow>(
      "select * from ai_usage where created_at >= '2026-01-03Z' limit 1",
    );
    const before = new Date("2026-01-03T00:00:00Z"); // 959 calls of each are older
    const total = () =>
      sql(
        `select sum(calls)::int as calls, sum(input)::int as input, sum(estimated)::int as estimated from (
           select calls, input_tokens, estimated_calls from ai_usage_days
           union all select 1, input_tokens, estimated::int from ai_usage) as usage (calls, input, estimated)`,
      );
    const expected = await total();
    const rollUp = async () => {
      while ((await rollUpUsage({ em: store.fork() }, before, 50)) > 0);
    };
    const detailed = () => sql("select count(*)::int as detailed from ai_usage");
    const erasure = await begin(url, "select 1 from users where id = $1 for update", [users[29]]); // waits for the roll-up of the calls
    const erased = users.slice(0, 10).map(erase);
    await Promise.all([
      ...erased,
      ...times(20, rollUp),
      ...times(20, () => upsertUsage(store, [late as UsageRow])),
    ]);
    await rollUp(); // an erasure may have ended last
    expect(await detailed()).toEqual([{ detailed: 29 * 41 + 1_000 }]);
    await erasure.commit();
    await rollUp();
    expect(await total()).toEqual(expected);
    expect(await detailed()).toEqual([{ detailed: 30 * 41 }]);
    const sums =
      "select count(*)::int as sums, count(distinct user_id)::int as owners from ai_usage_days where user_id is not null";
    expect(await sql(sums)).toEqual([{ sums: 20 * 2 * 3, owners: 20 }]);
  },
);

test("Usage: daily totals and sums contain the costs of their calls, and the number of calls with a price", async () => {
  const { store, sql, newCall } = await forTest(openUsage());
  const { userId } = await newCall();
  const add = (hour: number, cost: number | null) =>
    sql(
      `insert into ai_usage (id, user_id, provider, model, outcome, cached_input_tokens, reasoning_tokens, cost_nanos, created_at)
       values (gen_random_uuid(), ?, 'p', 'priced', 'completed', ?, ?, ?, '2099-02-01Z'::timestamptz + ?::int * interval '1 hour')`,
      [userId, cost === null ? null : 5, cost === null ? null : 3, cost, hour],
    );
  for (const [hour, cost] of [1, 2, null, 10, null].entries()) await add(hour, cost);
  await sql(
    "update ai_usage set cost_nanos = 9007199254740993 where cost_nanos > 9 and user_id = ?",
    [userId],
  ); // more than a number can be exact about
  const counts = `calls::int, cached_input_tokens::int as cached, reasoning_tokens::int as reasoning, cost_nanos::text as cost,
    priced_calls::int as priced`;
  const expected = { calls: 5, cached: 15, reasoning: 9, cost: "9007199254740996", priced: 3 };
  const daily = () => sql(`select ${counts} from ai_usage_days where user_id = ?`, [userId]);
  await rollUpUsage({ em: store.fork() }, new Date("2099-02-01T02:00:00Z"), 50); // in two parts
  expect(await daily()).toEqual([{ calls: 2, cached: 10, reasoning: 6, cost: "3", priced: 2 }]);
  await rollUpUsage({ em: store.fork() }, new Date("2099-02-02T00:00:00Z"), 50);
  expect(await daily()).toEqual([expected]);
  expect(await sql(`select ${counts} from ai_usage_users where user_id = ?`, [userId])).toEqual([
    expected,
  ]);
});

test("Usage: a call that ends with another model or cost is moved in the sums of models", async () => {
  const { sql, newCall } = await forTest(openUsage());
  const { userId } = await newCall();
  const [call] = await sql<{ id: string }>(
    `insert into ai_usage (id, user_id, provider, model, outcome, input_tokens, cost_nanos, created_at)
     values (gen_random_uuid(), ?, 'p', 'first', 'running', 10, 100, '2099-03-01Z') returning id`,
    [userId],
  );
  const sums = () =>
    sql(
      `select model, calls::int, input_tokens::int as input, cost_nanos::int as cost, priced_calls::int as priced
       from ai_usage_models where day = '2099-03-01' order by model`,
    );
  expect(await sums()).toEqual([{ model: "first", calls: 1, input: 10, cost: 100, priced: 1 }]);
  await sql(
    "update ai_usage set model = 'second', input_tokens = 12, cost_nanos = null where id = ?",
    [call?.id],
  );
  expect(await sums()).toEqual([
    { model: "first", calls: 0, input: 0, cost: 0, priced: 0 },
    { model: "second", calls: 1, input: 12, cost: 0, priced: 0 },
  ]);
  await sql("update ai_usage set cost_nanos = 7 where id = ?", [call?.id]);
  expect((await sums())[1]).toEqual({ model: "second", calls: 1, input: 12, cost: 7, priced: 1 });
});

test("Usage: an erasure updates years of rows in short statements", async () => {
  const { userId } = await newCall();
  await sql(
    `insert into ai_usage (id, user_id, provider, model, outcome, created_at)
     select gen_random_uuid(), ?, 'p', 'many', 'completed', now() from generate_series(1, 50001)`,
    [userId],
  );
  await sql(`create function refuse_many() returns trigger language plpgsql as $$
    begin if (select count(*) from changed) > 50000 then raise exception 'too many'; end if; return null; end $$`);
  await sql(`create trigger few after update on ai_usage referencing new table as changed
    for each statement execute function refuse_many()`);
  expect(await erase(userId)).toBe(true);
  const [left] = await sql(
    "select count(*)::int as rows, count(user_id)::int as owned from ai_usage where model = 'many'",
  );
  expect(left).toEqual({ rows: 50_001, owned: 0 });
});

test("Usage: an unavailable database delays usage rows, and none is lost", async () => {
  const call = await newCall();
  let away = true;
  const query: Store["query"] = (statement, values) =>
    away ? Promise.reject(new Error("away")) : store.query(statement, values);
  const shaky = openUsageLedger({ query }, clock, silent);
  const entry = shaky.start(call);
  entry.observe({ kind: "sending", isUnread: () => false });
  entry.finish("completed");
  await shaky.flush();
  expect(await rowsOf(call)).toEqual([]);
  away = false;
  await shaky.flush();
  expect(await rowsOf(call)).toMatchObject([{ outcome: "completed", input_tokens: 2 }]);
});

test("Usage: a long outage of the database drops the oldest usage rows", async () => {
  const written: string[] = [];
  let away = true;
  const query: Store["query"] = async (_, [rows]) => {
    if (away) throw new Error("away");
    written.push(...JSON.parse(rows as string).map(({ model }: { model: string }) => model));
    return [];
  };
  const ledger = openUsageLedger({ query }, clock, silent);
  for (let i = 0; i <= 20_000; i++) {
    ledger.start({ userId: "u", provider: "p", model: String(i), inputTokens: 2 });
  }
  await ledger.flush();
  away = false;
  await ledger.flush();
  expect([written.length, written[0]]).toEqual([20_000, "1"]);
});

test("Usage: rows are updated while a long reply arrives", async () => {
  const call = await newCall();
  const entry = usage.start(call);
  await usage.flush();
  const now = vi.spyOn(performance, "now").mockReturnValue(performance.now() + 5_001);
  entry.observe({ kind: "text", text: "12345678", decodingMs: 0 });
  now.mockRestore();
  expect(await rowsOf(call)).toMatchObject([{ outcome: "running", output_tokens: 2 }]);
  entry.finish("completed");
});

test("Usage: the input of an aborted call counts once any of it was sent", async () => {
  const [waiting, early, sent] = [await newCall(), await newCall(), await newCall()];
  usage.start(waiting).finish("cancelled");
  for (const [call, isUnread] of [
    [early, true],
    [sent, false],
  ] as const) {
    const entry = usage.start(call);
    entry.observe({ kind: "sending", isUnread: () => isUnread });
    entry.finish("cancelled");
  }
  expect(await rowsOf(waiting)).toMatchObject([{ outcome: "cancelled", input_tokens: 0 }]);
  expect(await rowsOf(early)).toMatchObject([{ outcome: "cancelled", input_tokens: 0 }]);
  expect(await rowsOf(sent)).toMatchObject([{ outcome: "cancelled", input_tokens: 2 }]);
});
