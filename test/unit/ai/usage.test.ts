import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { afterAll, expect, onTestFinished, test, vi } from "vitest";
import { tokensIn } from "../../../scripts/simulators/dialect-encoder.ts";
import { listUsage } from "../../../services/ai/list-usage.ts";
import { openUsageLedger } from "../../../services/ai/usage.ts";
import type { Config } from "../../../services/platform/config.ts";
import type { Store } from "../../../services/store/store.ts";
import { conversationOf } from "../../support/ai-calls.ts";
import { testApp } from "../../support/app.ts";
import { createDatabase } from "../../support/databases.ts";
import { silent } from "../../support/log.ts";
import { begin } from "../../support/transaction.ts";
import { clock, openUsage } from "./usage-fixture.ts";

const onServers = test.runIf(process.env.TEST_SERVERS);
const { signal } = new AbortController();
const { store, sql, usage, newCall, rowsOf, erase } = await openUsage();
afterAll(() => store.close());

test("POST /ai/chat: a failed call has its kind, and its cause in the log only; an estimate counts the system prompt", async () => {
  const app = await testApp();
  const logged = app.logs.length;
  const { browser, accessToken } = await app.signIn();
  for (const [name, more] of [["bad-key"], ["reset"], ["no-usage", { systemPrompt: "Be brief." }]] as const)
    await browser.post("/ai/chat", { ...conversationOf(`case: ${name}`), ...more }, accessToken);
  expect((await browser.get("/user/export", accessToken)).body.usage).toMatchObject([
    { outcome: "completed", inputTokens: tokensIn("case: no-usageBe brief."), estimated: true },
    { outcome: "unreachable", inputTokens: 0, outputTokens: 0, estimated: true },
    { outcome: "refused the key", inputTokens: 0, outputTokens: 0, estimated: true },
  ]);
  const causes = app.logs.slice(logged).map((line) => JSON.parse(line));
  expect(causes.filter(({ detail }) => detail)).toMatchObject([
    { requestId: expect.any(String), detail: "HTTP 401", msg: "The AI provider provider-a failed: refused the key." },
    { requestId: expect.any(String), detail: "ECONNRESET" },
  ]);
});

test("Usage: a page of the usage of all users reads only the days that it shows", async () => {
  onTestFinished(async () => void (await sql("delete from ai_usage where provider = 'p'")));
  for (const days of [100, 150, 200, 250, 300]) {
    await sql(
      `insert into ai_usage (id, provider, model, outcome, created_at)
       select gen_random_uuid(), 'p', 'model ' || n, 'completed', ?::timestamptz - ?::int * interval '1 day' from generate_series(1, 6000) as n`,
      [clock.now(), days],
    );
  }
  await sql("analyze ai_usage");
  await store.fork().transactional(async (em) => {
    const [from, to] = [360, 90].map((days) => timestampFromMs(clock.now().getTime() - days * 86_400_000));
    const call = { em, clock, config: { usageRetentionMs: 0 } as Config, ai: { usage } };
    const page = await listUsage(call, { from, to });
    expect([page.length, new Set(page.map(({ day }) => day)).size]).toEqual([5_000, 1]);
    const [read] = await em.execute<{ rows: number }[]>(
      "select (seq_tup_read + idx_tup_fetch)::int as rows from pg_stat_xact_user_tables where relname = 'ai_usage'",
    );
    expect(read?.rows).toBeLessThan(15_000);
  });
});

onServers("Usage: writing waits for the erasure of the account, which does not wait", async () => {
  const url = await createDatabase();
  const onServer = await openUsage(url);
  const call = await onServer.newCall();
  const open = onServer.usage.start(call, signal);
  await onServer.usage.flush();
  const erasure = await begin(url, "select 1 from users where id = $1 for update", [call.userId]);
  open.finish("completed");
  onServer.usage.start(call, signal);
  const written = onServer.usage.flush();
  await erasure.toBeWaitedFor();
  await erasure.run("delete from users where id = $1", [call.userId]);
  await erasure.commit();
  await written;
  const rows = await onServer.sql("select user_id, outcome from ai_usage order by outcome");
  expect(rows).toEqual(["completed", "running"].map((outcome) => ({ user_id: null, outcome })));
  await onServer.store.close();
});

test("Usage: an erasure updates the rows of years in short statements", async () => {
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

test("Usage: an unavailable database delays usage rows and loses none", async () => {
  const call = await newCall();
  let away = true;
  const query: Store["query"] = (statement, values) =>
    away ? Promise.reject(new Error("away")) : store.query(statement, values);
  const shaky = openUsageLedger({ query }, clock, silent);
  shaky.start(call, signal).finish("completed");
  await shaky.flush();
  expect(await rowsOf(call)).toEqual([]);
  away = false;
  await shaky.flush();
  expect(await rowsOf(call)).toMatchObject([{ outcome: "completed", input_tokens: 2 }]);
});

test("Usage: a long database outage drops the oldest usage rows", async () => {
  const written: string[] = [];
  let away = true;
  const query = async (_: unknown, { rows }: { rows: string }) => {
    if (away) throw new Error("away");
    written.push(...JSON.parse(rows).map(({ model }: { model: string }) => model));
    return [];
  };
  const ledger = openUsageLedger({ query } as never, clock, silent);
  for (let i = 0; i <= 20_000; i++) {
    ledger.start({ userId: "u", provider: "p", model: String(i), inputCharacters: 8 }, signal);
  }
  await ledger.flush();
  away = false;
  await ledger.flush();
  expect([written.length, written[0]]).toEqual([20_000, "1"]);
});

test("Usage: is updated while a long reply arrives", async () => {
  const call = await newCall();
  const entry = usage.start(call, signal);
  await usage.flush();
  const now = vi.spyOn(performance, "now").mockReturnValue(performance.now() + 5_001);
  entry.onText("12345678");
  now.mockRestore();
  expect(await rowsOf(call)).toMatchObject([{ outcome: "running", output_tokens: 2 }]);
  entry.finish("completed");
});
