import { v7 as uuid } from "uuid";
import { expect, test } from "vitest";
import { sumUpEarlier } from "../../../services/jobs/sum-up-earlier.ts";
import { countActiveUsersByDay, countEventsByDay } from "../../../services/store/overview.ts";
import { sumUsageByDay } from "../../../services/store/usage.ts";
import { findTopUsers } from "../../../services/store/usage-rankings.ts";
import { sumModelDays, sumUserDays } from "../../../services/store/usage-sums.ts";
import { createMigratedDatabase } from "../../support/database/databases.ts";
import { insertUsers, openQuietStore } from "../../support/database/store.ts";
import { forTest } from "../../support/suites.ts";

const onServers = test.runIf(process.env.TEST_SERVERS);
const NOW = new Date();
const DAY_MS = 86_400_000;
const dayOf = (daysAgo: number) =>
  new Date(NOW.getTime() - daysAgo * DAY_MS).toISOString().slice(0, 10);
const period = { firstDay: dayOf(9), lastDay: dayOf(0) };
const still = new AbortController().signal;

/** A database whose calls and events are older than its sums. */
async function openUpgraded(url?: string) {
  const store = await openQuietStore(url);
  await store.migrate();
  const db = { em: store.fork() };
  const sql = <T>(text: string, values: unknown[] = []) => store.fork().execute<T[]>(text, values);
  const [ann = "", bob = ""] = [
    ...(await insertUsers(store, 1, { email: "ann", canonicalEmail: "ann" })),
    ...(await insertUsers(store, 1, { email: "bob", canonicalEmail: "bob" })),
  ];
  await sql("update ai_usage_summing set summed_from = now() + interval '1 hour'");
  await sql(
    `insert into ai_usage (id, user_id, provider, model, outcome, input_tokens, output_tokens, estimated, cached_input_tokens,
       cost_nanos, created_at)
     select gen_random_uuid(), (array[?, ?, null]::uuid[])[1 + n % 3], 'p', 'm' || n % 2, 'completed', n, 1, n % 5 = 0, n / 2,
       case when n % 4 > 0 then n end, ?::timestamptz - (n % 8) * interval '1 day' from generate_series(1, 200) as n`,
    [ann, bob, NOW],
  );
  await sql(
    `insert into ai_usage_days select id, ?::date, 'p', 'm1', 7, 70, 7, 0 from unnest(array[?, ?]::uuid[]) as id`,
    [dayOf(9), ann, bob],
  );
  const read = async () => ({
    models: (await sumModelDays(db, period)).map((row) => JSON.stringify(row)).sort(),
    users: (await sumUserDays(db, { ...period, userIds: [ann, bob] }))
      .map((row) => JSON.stringify(row))
      .sort(),
    lines: await sumUsageByDay(
      db,
      { userId: null, from: new Date(dayOf(9)), to: NOW, groupBy: undefined },
      { limit: 30, offset: 3 },
    ),
    top: (await findTopUsers(db, { ...period, limit: 1 })).map(({ userId }) => userId),
  });
  return { store, db, sql, ann, read };
}

test("AI calls from before an upgrade count the same before and after they are summed up, and later ones once", async () => {
  const { store, sql, ann, read } = await openUpgraded();
  await forTest(store);
  const before = await read();
  expect(before.models).not.toEqual([]);
  expect(before.lines.length).toBeGreaterThan(10);
  expect(before.top).toHaveLength(1);
  expect(await sql("select 1 from ai_usage_models")).toEqual([]);
  await sumUpEarlier(store, NOW, still);
  expect(await read()).toEqual(before);
  expect(await sql("select 1 from ai_usage_unsummed")).toEqual([]);
  await sumUpEarlier(store, NOW, still);
  expect(await read()).toEqual(before);
  const count = async () => {
    const [row] = await sql<{ calls: number }>(
      "select sum(calls)::int as calls from ai_usage_users where user_id = ?",
      [ann],
    );
    return row?.calls ?? 0;
  };
  const counted = await count();
  await sql(
    `insert into ai_usage (id, user_id, provider, model, outcome, created_at)
     values (gen_random_uuid(), ?, 'p', 'm1', 'completed', ?::timestamptz - interval '5 days')`,
    [ann, NOW],
  );
  expect(await count()).toBe(counted + 1);
});

onServers(
  "AI calls that end while earlier ones are summed up count with their final tokens",
  async () => {
    const url = await createMigratedDatabase();
    const { store, sql } = await openUpgraded(url);
    forTest(store);
    let isDone = false;
    const write = async () => {
      while (!isDone) {
        await sql(
          "update ai_usage set output_tokens = output_tokens + 1 where id = (select id from ai_usage order by random() limit 1)",
        );
        await sql(
          `insert into ai_usage (id, provider, model, outcome, input_tokens, created_at)
         values (gen_random_uuid(), 'p', 'm1', 'completed', 3, ?::timestamptz - random() * interval '7 days')`,
          [NOW],
        );
      }
    };
    const writers = [write(), write(), write()];
    try {
      await Promise.all([sumUpEarlier(store, NOW, still), sumUpEarlier(store, NOW, still)]);
      await sumUpEarlier(store, NOW, still);
    } finally {
      isDone = true;
      await Promise.all(writers);
    }
    const sums =
      "sum(calls)::int as calls, sum(input_tokens)::int as input, sum(output_tokens)::int as output";
    const [expected] = await sql(
      `select ${sums} from (select calls, input_tokens, output_tokens from ai_usage_days
       union all select 1, input_tokens, output_tokens from ai_usage) as all_calls`,
    );
    expect(await sql(`select ${sums} from ai_usage_models`)).toEqual([expected]);
    expect(await sql(`select ${sums} from ai_usage_users`)).toEqual([expected]);
  },
);

test("Audit events sealed before an upgrade are counted once, with the active users of each day", async () => {
  const store = await forTest(openQuietStore());
  await store.migrate();
  const db = { em: store.fork() };
  const sql = <T>(text: string, values: unknown[] = []) => store.fork().execute<T[]>(text, values);
  const seal = async (position: number, daysAgo: number, users: string[]) => {
    const at = new Date(NOW.getTime() - daysAgo * DAY_MS);
    const ids: string[] = [];
    for (const user of users) {
      const id = uuid({ msecs: at.getTime() });
      ids.push(id);
      await sql(
        `insert into audit_events (id, event, outcome, user_id, actor_id, ip, user_agent, request_id, details, created_at)
         values (?, 'auth.login', 'success', ?, ?, '203.0.113.7', '', '', '{}', ?)`,
        [id, user, user, at],
      );
    }
    await sql(
      `insert into audit_seals (position, ids, links, head, sealed_at, mac)
       values (?, array[?]::uuid[], '', '', ?, '\\x00')`,
      [position, ids, at],
    );
  };
  const [ann, bob] = [uuid(), uuid()];
  await sql("alter table audit_seals disable trigger audit_counted");
  await seal(1, 2, [ann, ann, bob]);
  await seal(2, 1, [ann]);
  await sql("alter table audit_seals enable trigger audit_counted");
  const read = async () =>
    (await countEventsByDay(db, period)).sort((a, b) => (a.day < b.day ? -1 : 1));
  const before = await read();
  expect(before.map(({ day, count }) => [day, count])).toEqual([
    [dayOf(2), 3],
    [dayOf(1), 1],
  ]);
  await seal(3, 0, [bob]); // by a process of the new release, before the earlier ones are counted
  await sumUpEarlier(store, NOW, still);
  await sumUpEarlier(store, NOW, still);
  expect((await read()).map(({ count }) => count)).toEqual([3, 1, 1]);
  const active = await countActiveUsersByDay(db, period);
  expect(Object.fromEntries(active.map(({ day, count }) => [day, count]))).toEqual({
    [dayOf(2)]: 2,
    [dayOf(1)]: 1,
    [dayOf(0)]: 1,
  });
});
