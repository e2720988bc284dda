import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { tokensIn } from "../../../scripts/simulators/dialect-encoder.ts";
import { eraseUser } from "../../../services/accounts/erase-user.ts";
import { chat } from "../../../services/ai/chat.ts";
import { listUsage } from "../../../services/ai/list-usage.ts";
import { openUsageLedger } from "../../../services/ai/usage.ts";
import type { Config } from "../../../services/platform/config.ts";
import type { Store } from "../../../services/store/store.ts";
import { rollUpUsage, type UsageRow, upsertUsage } from "../../../services/store/usage.ts";
import { createDatabase } from "../../support/databases.ts";
import { captureLog, silent } from "../../support/log.ts";
import { begin } from "../../support/transaction.ts";
import { times } from "../../support/until.ts";
import { clock, type Desk, erasureOn, newCall, openDesk, rowsOf, saying } from "./ai-fixture.ts";

let desk: Desk;
beforeAll(async () => {
  desk = await openDesk();
});
afterAll(() => desk.close());

test("Usage: a failed call has its kind, and its cause in the log only; an estimate includes the system prompt", async () => {
  const { lines, log } = captureLog();
  const call = { ...(await newCall(desk)), log };
  await expect(chat(call, saying("case: bad-key"))).rejects.toThrow("provider-a failed: refused the key.");
  await expect(chat(call, saying("case: reset"))).rejects.toThrow("unreachable");
  await chat(call, { ...saying("case: no-usage"), systemPrompt: "Be brief." });
  expect(await rowsOf(desk, call.userId)).toMatchObject([
    { outcome: "completed", input_tokens: tokensIn("case: no-usageBe brief."), estimated: true },
    { outcome: "refused the key", input_tokens: 0, output_tokens: 0, estimated: true },
    { outcome: "unreachable", input_tokens: 0, output_tokens: 0, estimated: true },
  ]);
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { requestId: "request", detail: "HTTP 401", msg: expect.stringContaining("refused the key") },
    { requestId: "request", detail: "ECONNRESET" },
  ]);
});

test("Usage: a page of the usage of all users reads only the days that it shows", async () => {
  const insert = (days: number, calls: number) =>
    desk.store.fork().execute(
      `insert into ai_usage (id, provider, model, outcome, created_at)
       select gen_random_uuid(), 'p', 'model ' || n, 'completed', ?::timestamptz - ?::int * interval '1 day' from generate_series(1, ?::int) as n`,
      [clock.now(), days, calls],
    );
  onTestFinished(async () => void (await desk.store.fork().execute("delete from ai_usage where provider = 'p'")));
  for (const days of [100, 150, 200, 250, 300]) await insert(days, 6_000);
  await desk.store.fork().execute("analyze ai_usage");
  await desk.store.fork().transactional(async (em) => {
    const [from, to] = [360, 90].map((days) => new Date(clock.now().getTime() - days * 86_400_000));
    const page = await listUsage({ em, clock, config: { usageRetentionMs: 0 } as Config, ai: desk.ai }, { from, to });
    expect([page.length, new Set(page.map(({ day }) => day)).size]).toEqual([5_000, 1]);
    const [read] = await em.execute<{ rows: number }[]>(
      "select (seq_tup_read + idx_tup_fetch)::int as rows from pg_stat_xact_user_tables where relname = 'ai_usage'",
    );
    expect(read?.rows).toBeLessThan(15_000);
  });
});

test.runIf(process.env.TEST_SERVERS)(
  "Usage: writing waits for the erasure of the account, and the erasure does not wait",
  async () => {
    const url = await createDatabase();
    const onServer = await openDesk(url);
    const { userId, signal } = await newCall(onServer);
    const start = () => onServer.ai.usage.start({ userId, provider: "p", model: "m", inputCharacters: 8 }, signal);
    const open = start();
    await onServer.ai.usage.flush();
    const erasure = await begin(url, "select 1 from users where id = $1 for update", [userId]);
    open.finish("completed");
    start();
    const written = onServer.ai.usage.flush();
    await erasure.toBeWaitedFor();
    await erasure.run("delete from users where id = $1", [userId]);
    await erasure.commit();
    await written;
    const rows = await onServer.store.fork().execute("select user_id, outcome from ai_usage order by outcome");
    expect(rows).toEqual(["completed", "running"].map((outcome) => ({ user_id: null, outcome })));
    await onServer.close();
  },
);

test("Usage: an erasure updates the rows of years in short statements", async () => {
  const { userId } = await newCall(desk);
  const sql = (text: string, values: unknown[] = []) => desk.store.fork().execute(text, values);
  await sql(
    `insert into ai_usage (id, user_id, provider, model, outcome, created_at)
     select gen_random_uuid(), ?, 'p', 'many', 'completed', now() from generate_series(1, 50001)`,
    [userId],
  );
  await sql(`create function refuse_many() returns trigger language plpgsql as $$
    begin if (select count(*) from changed) > 50000 then raise exception 'too many'; end if; return null; end $$`);
  await sql(`create trigger few after update on ai_usage referencing new table as changed
    for each statement execute function refuse_many()`);
  const call = erasureOn(desk);
  expect(await call.em.transactional(() => eraseUser(call, userId))).toBe(true);
  const [left] = await sql(
    "select count(*)::int as rows, count(user_id)::int as owned from ai_usage where model = 'many'",
  );
  expect(left).toEqual({ rows: 50_001, owned: 0 });
});

test("Usage: an unavailable database delays usage rows and loses none", async () => {
  const call = await newCall(desk);
  let away = true;
  const query: Store["query"] = (statement, values) =>
    away ? Promise.reject(new Error("away")) : desk.store.query(statement, values);
  const shaky = openUsageLedger({ query }, clock, silent);
  const entry = { userId: call.userId, provider: "p", model: "m", inputCharacters: 8 };
  shaky.start(entry, call.signal).finish("completed");
  await shaky.flush();
  expect(await rowsOf(desk, call.userId)).toEqual([]);
  away = false;
  await shaky.flush();
  expect(await rowsOf(desk, call.userId)).toMatchObject([{ outcome: "completed", input_tokens: 2 }]);
});

test("Usage: a long database outage drops the oldest usage rows", async () => {
  const written: string[] = [];
  let away = true;
  const query = async (_: unknown, values: unknown[]) => {
    if (away) throw new Error("away");
    written.push(...JSON.parse(String(values[0])).map(({ model }: { model: string }) => model));
    return [];
  };
  const ledger = openUsageLedger({ query } as never, clock, silent);
  for (let i = 0; i <= 20_000; i++) {
    const { signal } = new AbortController();
    ledger.start({ userId: "u", provider: "p", model: String(i), inputCharacters: 8 }, signal);
  }
  await ledger.flush();
  away = false;
  await ledger.flush();
  expect([written.length, written[0]]).toEqual([20_000, "1"]);
});

test("Usage: is updated while a long reply arrives", async () => {
  const { userId, signal } = await newCall(desk);
  const entry = desk.ai.usage.start({ userId, provider: "p", model: "m", inputCharacters: 8 }, signal);
  await desk.ai.usage.flush();
  const now = vi.spyOn(performance, "now").mockReturnValue(performance.now() + 5_001);
  entry.onText("12345678");
  now.mockRestore();
  expect(await rowsOf(desk, userId)).toMatchObject([{ outcome: "running", output_tokens: 2 }]);
  entry.finish("completed");
});

test.runIf(process.env.TEST_SERVERS)(
  "Usage: parallel roll-ups with erasures and late records lose no call and count none twice",
  async () => {
    const url = await createDatabase();
    const desk = await openDesk(url);
    const sql = <T>(text: string, values: unknown[] = []) => desk.store.fork().execute<T[]>(text, values);
    const users = await Promise.all(times(30, async () => (await newCall(desk)).userId));
    await sql(
      `insert into ai_usage (id, user_id, provider, model, outcome, input_tokens, estimated, created_at)
       select gen_random_uuid(), id, 'p', 'model ' || n % 3, 'completed', n, n % 2 = 0, '2026-01-01Z'::timestamptz + n * interval '3 minutes'
       from users, generate_series(1, 1000) as n`,
    );
    const [late] = await sql<UsageRow>("select * from ai_usage where created_at >= '2026-01-03Z' limit 1");
    const before = new Date("2026-01-03T00:00:00Z"); // 959 calls of each are older
    const total = () =>
      sql(
        `select sum(calls)::int as calls, sum(input)::int as input, sum(estimated)::int as estimated from (
           select calls, input_tokens, estimated_calls from ai_usage_days
           union all select 1, input_tokens, estimated::int from ai_usage) as usage (calls, input, estimated)`,
      );
    const expected = await total();
    const rollUp = async () => {
      while ((await rollUpUsage({ em: desk.store.fork() }, before, 50)) > 0);
    };
    const detailed = () => sql("select count(*)::int as detailed from ai_usage");
    const erasure = await begin(url, "select 1 from users where id = $1 for update", [users[29]]); // waits for the roll-up of the calls
    const erased = users.slice(0, 10).map(async (id) => {
      const call = erasureOn(desk);
      return call.em.transactional(() => eraseUser(call, id));
    });
    await Promise.all([
      ...erased,
      ...times(20, rollUp),
      ...times(20, () => upsertUsage(desk.store, [late as UsageRow])),
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
    await desk.close();
  },
);
