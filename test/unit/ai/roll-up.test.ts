import { expect, test } from "vitest";
import { rollUpUsage, type UsageRow, upsertUsage } from "../../../services/store/usage.ts";
import { createDatabase } from "../../support/databases.ts";
import { begin } from "../../support/transaction.ts";
import { times } from "../../support/until.ts";
import { openUsage } from "./usage-fixture.ts";

const onServers = test.runIf(process.env.TEST_SERVERS);

onServers("Usage: roll-ups beside erasures and late records lose no call and count none twice", async () => {
  const url = await createDatabase();
  const { store, sql, newCall, erase } = await openUsage(url);
  const users = await Promise.all(times(30, async () => (await newCall()).userId));
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
    while ((await rollUpUsage({ em: store.fork() }, before, 50)) > 0);
  };
  const detailed = () => sql("select count(*)::int as detailed from ai_usage");
  const erasure = await begin(url, "select 1 from users where id = $1 for update", [users[29]]); // waits for the roll-up of the calls
  const erased = users.slice(0, 10).map(erase);
  await Promise.all([...erased, ...times(20, rollUp), ...times(20, () => upsertUsage(store, [late as UsageRow]))]);
  await rollUp(); // an erasure may have ended last
  expect(await detailed()).toEqual([{ detailed: 29 * 41 + 1_000 }]);
  await erasure.commit();
  await rollUp();
  expect(await total()).toEqual(expected);
  expect(await detailed()).toEqual([{ detailed: 30 * 41 }]);
  const sums =
    "select count(*)::int as sums, count(distinct user_id)::int as owners from ai_usage_days where user_id is not null";
  expect(await sql(sums)).toEqual([{ sums: 20 * 2 * 3, owners: 20 }]);
  await store.close();
});
