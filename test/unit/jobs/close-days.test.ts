import { expect, test } from "vitest";
import { closeDays } from "../../../services/jobs/close-days.ts";
import {
  forgetClosedDays,
  sumModelHours,
  sumPartDays,
} from "../../../services/store/usage-parts.ts";
import {
  claimRankings,
  findTopUsers,
  RANKED_USERS,
  reopenDays,
} from "../../../services/store/usage-rankings.ts";
import type { SignedIn } from "../../support/accounts.ts";
import { startApp } from "../../support/app.ts";
import { createMigratedDatabase } from "../../support/database/databases.ts";
import { insertUsers, openQuietStore } from "../../support/database/store.ts";
import { begin } from "../../support/database/transaction.ts";
import { describeIf, forSuite, forTest } from "../../support/suites.ts";
import { times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";

const DAY_MS = 86_400_000;
/** More than a ranking has, so that most users are in none. */
const USERS = RANKED_USERS + 2_000;
const KEYS = 150;

/**
 * First and last day of periods, in days before today. Without TEST_FULL: a ranked one, one that
 * reaches beyond the rankings, and one that ends before today.
 */
const PERIODS = [
  ...([
    [29, 0],
    [89, 0],
    [20, 5],
  ] as const),
  ...(process.env.TEST_FULL
    ? ([
        [6, 0],
        [30, 0],
        [11, 0],
        [28, 1],
      ] as const)
    : []),
];
/** Callers at once, and calls of each. */
const [CALLERS, ROUNDS] = process.env.TEST_FULL ? [8, 6] : [4, 3];

type Line = { id: string; day: string; calls: number; tokens: number };
type Group = {
  user?: { id: string };
  apiKeyId?: string;
  alias?: string;
  usage: { calls: number; dailyTokens: number[]; dailyCalls: number[] };
};

/** The column of calls by which sums are grouped. */
const COLUMNS = { user: "user_id", key: "api_key_id", alias: "alias" };
const idOf = ({ user, apiKeyId, alias }: Group) => apiKeyId ?? user?.id ?? alias;
const tokensOf = ({ dailyTokens }: { dailyTokens: number[] }) =>
  dailyTokens.reduce((sum, tokens) => sum + tokens, 0);

/**
 * Adds users, and calls of the last 35 days. All use about the same. Some calls have a key or an
 * alias.
 */
const FILL = [
  `insert into users (id, email, canonical_email, name, password_hash, password_changed_at, terms_accepted_at, created_at, updated_at)
   select id, id || '@example.com', id || '@example.com', 'Caller', '-', now(), now(), now(), now()
   from (select gen_random_uuid() as id from generate_series(1, ${USERS})) as new`,
  `insert into ai_usage (id, user_id, api_key_id, alias, provider, model, outcome, input_tokens, output_tokens, created_at)
   select gen_random_uuid(), id, case when n <= ${KEYS} then id end, (array['fast', 'cheap', null])[1 + c % 3], 'p', 'm' || c % 4,
     'completed', (random() * 900)::int, (random() * 700)::int, ?::timestamptz - random() * interval '35 days'
   from (select id, row_number() over () as n from users where name = 'Caller') as u, generate_series(1, 6) as c`,
];

describeIf(process.env.TEST_SERVERS, "Days of AI usage that are over, on PostgreSQL", async () => {
  const app = await forSuite(startApp({ mode: "servers" }));
  const root = await app.addUser({ role: "admin" });
  for (const statement of FILL)
    await app.sql(statement, statement.includes("?") ? [app.clock.now()] : []);
  const dayOf = (daysAgo: number) =>
    new Date(app.clock.now().getTime() - daysAgo * DAY_MS).toISOString().slice(0, 10);

  /** Compares the response for a period with all calls, added up one by one. */
  async function compare(
    groupBy: keyof typeof COLUMNS,
    [firstAgo, lastAgo]: readonly [number, number],
    limit: number,
    { get }: SignedIn,
  ) {
    const [first, last] = [dayOf(firstAgo), dayOf(lastAgo)];
    const query = `groupBy=${groupBy}&from=${first}T00:00:00Z&to=${last}T00:00:00Z&limit=${limit}`;
    const { body } = await get(`/admin/usage/sums?${query}`);
    const column = COLUMNS[groupBy];
    const calls = `ai_usage where (created_at at time zone 'UTC')::date between '${first}' and '${last}'`;
    const sums = await app.sql<{ tokens: number }>(
      `select sum(input_tokens + output_tokens)::int as tokens from ${calls} and ${column} is not null
         group by ${column} order by 1 desc limit ?`,
      [limit],
    );
    const ids = body.groups.map(idOf);
    const lines = await app.sql<Line>(
      `select ${column}::text as id, to_char(created_at at time zone 'UTC', 'YYYY-MM-DD') as day, count(*)::int as calls,
           sum(input_tokens + output_tokens)::int as tokens
         from ${calls} and ${column}::text in (?) group by 1, 2`,
      [[...ids, ""]],
    );
    const expected = ids.map((id: string) => {
      const own = new Map(lines.filter((line) => line.id === id).map((line) => [line.day, line]));
      const daily = body.days.map((day: string) => own.get(day));
      return {
        id,
        dailyTokens: daily.map((line?: Line) => line?.tokens ?? 0),
        dailyCalls: daily.map((line?: Line) => line?.calls ?? 0),
      };
    });
    const listed = body.groups.map((group: Group) => {
      const { dailyTokens, dailyCalls } = group.usage;
      return { id: idOf(group), dailyTokens, dailyCalls };
    });
    const period = { groupBy, first, last };
    expect({ ...period, listed }).toEqual({ ...period, listed: expected });
    expect({ ...period, sums: listed.map(tokensOf) }).toEqual({
      ...period,
      sums: sums.map(({ tokens }) => tokens),
    });
  }

  /** Compares periods that rankings cover, that reach beyond them, and that end before today. */
  async function compareAll() {
    const admin = await app.signIn(root);
    for (const period of PERIODS) await compare("user", period, 10, admin);
    await compare("user", [29, 0], 100, admin);
    await compare("key", [29, 0], 10, admin);
    await compare("alias", [29, 0], 10, admin);
  }

  /** Waits until the job has ranked the users after yesterday. */
  const ranked = async () =>
    until("a ranking of the days up to yesterday", async () => {
      const rows = await app.sql("select 1 from ai_usage_rankings where last_day = ?::date", [
        dayOf(1),
      ]);
      const open = await app.sql(
        `select 1 from ai_usage_day_versions v left join ai_usage_ranked_days r using (day)
           where v.day between ?::date and ?::date and v.version is distinct from r.version`,
        [dayOf(30), dayOf(1)],
      );
      const unclosed = await app.sql(
        `select 1 from ai_usage_day_versions v left join ai_usage_closed_days c using (day)
           where v.day between ?::date and ?::date and v.version is distinct from c.version`,
        [dayOf(30), dayOf(1)],
      );
      return rows.length > 0 && open.length === 0 && unclosed.length === 0;
    });

  test("GET /admin/usage/sums: top users, keys and aliases are those of all calls, before and after days are closed", async () => {
    await compareAll();
    app.clock.advance("11m"); // the job ranks again what has changed
    await ranked();
    const [{ users, others }] = (await app.sql<{ users: number; others: number }>(
      `select count(*)::int as users, max(others)::int as others from ai_usage_ranked_users join ai_usage_rankings using (first_day)
         where first_day = ?::date`,
      [dayOf(29)],
    )) as [{ users: number; others: number }];
    expect(users).toBe(RANKED_USERS);
    expect(others).toBeGreaterThan(0);
    await compareAll();
  });

  test("GET /admin/usage/sums: a call of a closed day that is added or changed counts at once", async () => {
    const [last] = await app.sql<{ id: string }>(
      `select id from users u where name = 'Caller' and not exists (select from ai_usage_ranked_users r where r.user_id = u.id) limit 1`,
    );
    const add = (userId: string | undefined, daysAgo: number, tokens: number) =>
      app.sql(
        `insert into ai_usage (id, user_id, api_key_id, alias, provider, model, outcome, input_tokens, created_at)
           values (gen_random_uuid(), ?, ?, 'late', 'p', 'm1', 'completed', ?, ?::timestamptz)`,
        [userId, userId, tokens, `${dayOf(daysAgo)}T12:00:00Z`],
      );
    for (const daysAgo of [1, 3, 20]) await add(last?.id, daysAgo, 50_000);
    await compareAll();
    await app.sql(
      `update ai_usage set input_tokens = 0, output_tokens = 0 where user_id in (
           select user_id from ai_usage_ranked_users order by tokens desc limit 300)`,
    );
    await compareAll();
    await app.sql(
      "update ai_usage set output_tokens = output_tokens + 100 where created_at < ?::timestamptz",
      [`${dayOf(1)}T00:00:00Z`],
    );
    await compareAll();
  });

  test("GET /admin/usage/sums: erased users are in no ranking and in no sums of keys any more", async () => {
    const admin = await app.signInAdmin(root);
    const { body } = await admin.get("/admin/usage/sums?groupBy=key&limit=3");
    const { body: top } = await admin.get("/admin/usage/sums?groupBy=user&limit=3");
    const ids = [
      ...body.groups.map(({ apiKeyId }: Group) => apiKeyId),
      ...top.groups.map(({ user }: Group) => user?.id),
    ];
    for (const id of new Set(ids))
      expect((await admin.delete(`/admin/users/${id}`)).status).toBe(200);
    await compareAll();
    for (const table of ["ai_usage_ranked_users", "ai_usage_keys"])
      expect(await app.sql(`select 1 from ${table} where user_id in (?)`, [ids])).toEqual([]);
  });

  test("GET /admin/usage/sums: are right after midnight, before and after the day that is over is closed", async () => {
    app.clock.advance("1d");
    await compareAll();
    await app.sql(
      `insert into ai_usage (id, user_id, provider, model, outcome, input_tokens, created_at)
         select gen_random_uuid(), id, 'p', 'm1', 'completed', (random() * 2000)::int, ?::timestamptz
         from users where name = 'Caller' order by random() limit 500`,
      [app.clock.now()],
    );
    await compareAll();
    app.clock.advance("11m");
    await ranked();
    await compareAll();
  });

  test("GET /admin/usage/sums: many callers at once see the calls that were written before they asked", async () => {
    const users = await app.sql<{ id: string }>(
      "select id from users where name = 'Caller' order by random() limit ?",
      [CALLERS],
    );
    await Promise.all(
      users.map(async ({ id }, i) => {
        const { get } = await app.signIn(await app.addUser({ role: "admin" }));
        for (let round = 1; round <= ROUNDS; round++) {
          await app.sql(
            `insert into ai_usage (id, user_id, api_key_id, provider, model, outcome, input_tokens, created_at)
               values (gen_random_uuid(), ?, ?, 'p', 'm1', 'completed', ?, ?::timestamptz)`,
            [id, id, 200_000 * (i + 1), `${dayOf((i * 5 + round * 3) % 29)}T00:00:00Z`],
          );
          const [{ tokens }] = (await app.sql<{ tokens: number }>(
            `select sum(input_tokens + output_tokens)::int as tokens from ai_usage
               where user_id = ? and created_at >= ?::timestamptz`,
            [id, `${dayOf(29)}T00:00:00Z`],
          )) as [{ tokens: number }];
          for (const groupBy of ["user", "key"]) {
            const { status, body } = await get(`/admin/usage/sums?groupBy=${groupBy}&limit=10`);
            expect({ status, body }).toMatchObject({ status: 200 });
            const own = body.groups.find((group: Group) => idOf(group) === id);
            const sum = own && tokensOf(own.usage);
            if (groupBy === "user") expect(sum).toBe(tokens);
            else expect(sum).toBeGreaterThanOrEqual(200_000 * (i + 1) * round);
          }
        }
      }),
    );
    await compareAll();
  });
});

const NOW = new Date(new Date().setUTCHours(12, 0, 0, 0)); // minutes later it is still the same day
const running = new AbortController().signal;
const config = { usageRetentionMs: 0 };
const daysBefore = (days: number) => new Date(NOW.getTime() - days * DAY_MS);
const textOf = (time: Date) => time.toISOString().slice(0, 10);
const later = (minutes: number) => new Date(NOW.getTime() + minutes * 60_000);

/** A store with users who have called on each of the last days, with a key and an alias. */
async function openFilled(url?: string) {
  const store = await openQuietStore(url);
  await store.migrate();
  const sql = <T>(text: string, values: unknown[] = []) => store.fork().execute<T[]>(text, values);
  const users = await insertUsers(store, 5);
  await sql("update ai_usage_summing set summed_from = '-infinity'"); // no earlier release has written calls
  const add = (userId: string | undefined, daysAgo: number, tokens: number) =>
    sql(
      `insert into ai_usage (id, user_id, api_key_id, alias, provider, model, outcome, input_tokens, created_at)
       values (gen_random_uuid(), ?, ?, 'fast', 'p', 'm', 'completed', ?, ?)`,
      [userId, userId, tokens, daysBefore(daysAgo)],
    );
  for (const [i, id] of users.entries())
    for (const daysAgo of [1, 2, 20]) await add(id, daysAgo, 10 * (i + 1));
  const period = { firstDay: textOf(daysBefore(29)), lastDay: textOf(NOW) };
  const top = () => findTopUsers({ em: store.fork() }, { ...period, limit: 2 });
  const keys = async () =>
    (await sumPartDays({ em: store.fork() }, { ...period, by: "key", userId: null, limit: 1 }))
      .map(({ day, part, inputTokens }) => [day, part, inputTokens])
      .sort();
  const hours = async () =>
    (await sumModelHours({ em: store.fork() }, { ...period, firstDay: textOf(daysBefore(2)) }))
      .map(({ day, model, calls, inputTokens }) => [day, model, calls, inputTokens])
      .sort();
  const ranked = async () =>
    (
      await sql<{ users: string[] }>(
        "select array_agg(user_id::text order by tokens desc) as users from ai_usage_ranked_users where first_day = ?::date",
        [period.firstDay],
      )
    )[0]?.users;
  return { store, sql, users, add, top, keys, hours, ranked, close: () => store.close() };
}

test("AI usage: closing days changes no answer, and reads no calls of closed days", async () => {
  const { store, sql, users, top, keys, hours } = await forTest(openFilled());
  const before = [await top(), await keys(), await hours()];
  expect(before[0]).toEqual([
    { userId: users[4], tokens: 150 },
    { userId: users[3], tokens: 120 },
  ]);
  expect(before[2]).toHaveLength(2);
  await closeDays(store, NOW, config, running);
  expect([await top(), await keys(), await hours()]).toEqual(before);
  await sql("alter table ai_usage rename to ai_usage_before");
  await sql("create table ai_usage (like ai_usage_before)");
  expect([await top(), await keys(), await hours()]).toEqual(before);
});

test("AI usage: days are not ranked until earlier calls are summed up", async () => {
  const { store, sql, top, ranked } = await forTest(openFilled());
  await sql("update ai_usage_summing set summed_from = now() - interval '10 days'");
  await closeDays(store, NOW, config, running);
  expect(await ranked()).toBeNull();
  expect(await top()).toHaveLength(2);
});

test("AI usage: after USAGE_RETENTION nothing is known of the keys of a day", async () => {
  const { store, sql } = await forTest(openFilled());
  await closeDays(store, NOW, config, running);
  await forgetClosedDays({ em: store.fork() }, daysBefore(10));
  for (const table of [
    ...["ai_usage_keys", "ai_usage_aliases", "ai_usage_hours", "ai_usage_closed_days"],
  ])
    expect(await sql(`select distinct day::text from ${table} order by 1`)).toEqual(
      [2, 1].map((days) => ({ day: textOf(daysBefore(days)) })),
    );
});

test("AI usage: days of a restored backup are closed again", async () => {
  const { store, sql, ranked } = await forTest(openFilled());
  await closeDays(store, NOW, config, running);
  const before = await ranked();
  await store.fork().transactional((em) => reopenDays({ em }));
  expect(await ranked()).toBeNull();
  expect(await sql("select 1 from ai_usage_keys")).toEqual([]);
  await closeDays(store, later(1), config, running);
  expect(await ranked()).toEqual(before);
  expect(await sql("select 1 from ai_usage_keys")).toHaveLength(15);
});

describeIf(process.env.TEST_SERVERS, "Days of AI usage, closed by several processes", async () => {
  test("one of them ranks the users, and another one if it has been killed", async () => {
    const url = await createMigratedDatabase();
    const { store, users, ranked } = await forTest(openFilled(url));
    const other = await forTest(openQuietStore(url));
    const claim = { now: NOW, lastDay: textOf(daysBefore(1)) };
    expect(await claimRankings({ em: other.fork() }, claim)).toBe(true); // and is killed
    await closeDays(store, later(5), config, running);
    expect(await ranked()).toBeNull();
    await closeDays(store, later(11), config, running);
    expect(await ranked()).toEqual(users.toReversed());
    expect(await claimRankings({ em: other.fork() }, { ...claim, now: later(30) })).toBe(false);
  });

  test("at the same time, while calls are written, they close each day once", async () => {
    const url = await createMigratedDatabase();
    const filled = await forTest(openFilled(url));
    const { sql, users, add, top, keys } = filled;
    const stores = [
      filled.store,
      await forTest(openQuietStore(url)),
      await forTest(openQuietStore(url)),
    ];
    for (const minutes of [0, 11, 22]) {
      await Promise.all([
        ...stores.map((store) => closeDays(store, later(minutes), config, running)),
        ...times(20, (i) => add(users[i % 5], i % 3, 1)),
      ]);
      const [before, keysBefore] = [await top(), await keys()];
      await closeDays(filled.store, later(minutes + 1), config, running);
      expect([await top(), await keys()]).toEqual([before, keysBefore]);
    }
    const sums = (table: string) =>
      sql(
        `select api_key_id, sum(input_tokens)::int as tokens from ${table}
         where ${table === "ai_usage" ? "created_at < ?::timestamptz" : "day < ?::date"} group by 1 order by 1`,
        [textOf(NOW)],
      );
    expect(await sums("ai_usage_keys")).toEqual(await sums("ai_usage"));
  });

  test("a connection that is lost while users are ranked leaves the ranking of before, and so does an erasure", async () => {
    const url = await createMigratedDatabase();
    const { store, users, add, top, ranked } = await forTest(openFilled(url));
    await closeDays(store, NOW, config, running);
    const before = await ranked();
    await add(users[0], 2, 1_000);
    const erasure = await begin(url, "select 1 from users where id = $1 for update", [users[0]]);
    const lost = closeDays(store, later(11), config, running);
    await erasure.toBeWaitedFor();
    await erasure.run(
      "select pg_terminate_backend(pid) from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid))",
      [],
    );
    await expect(lost).rejects.toThrow();
    expect(await ranked()).toEqual(before);
    await closeDays(store, later(22), config, running); // gives up, since the erasure does not end
    expect(await ranked()).toEqual(before);
    expect(await top()).toMatchObject([{ userId: users[0], tokens: 1_030 }, { userId: users[4] }]);
    await erasure.run("delete from users where id = $1", [users[0]]);
    await erasure.commit();
    expect(await ranked()).toEqual(before?.filter((id) => id !== users[0]));
    expect((await top()).map(({ userId }) => userId)).toEqual([users[4], users[3]]);
    await closeDays(store, later(33), config, running);
    expect(await ranked()).toEqual(users.slice(1).toReversed());
  });
});
