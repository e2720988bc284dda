import { describe, expect, test } from "vitest";
import { closeDays } from "../../../services/jobs/close-days.ts";
import type { Store } from "../../../services/store/store.ts";
import { forgetClosedDays, sumPartDays } from "../../../services/store/usage-parts.ts";
import { findTopUsers, reopenDays } from "../../../services/store/usage-rankings.ts";
import { createMigratedDatabase } from "../../support/database/databases.ts";
import { ENGINES, openMigratedStore } from "../../support/database/engines.ts";
import { insertUsers, openQuietStore } from "../../support/database/store.ts";
import { begin } from "../../support/database/transaction.ts";
import { describeIf, forTest } from "../../support/suites.ts";
import { times } from "../../support/tally.ts";

const NOW = new Date(new Date().setUTCHours(12, 0, 0, 0)); // minutes later it is still the same day
const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;
const USERS = 400;
const CALLS = 8_000;
/** Days with calls. A list of each of them does not have all users of the day. */
const DAYS = 45;
const LIMITS = [1, 5, 20, 100];
const running = new AbortController().signal;
const config = { usageRetentionMs: 0 };

/** How many calls each user makes: a number of 1 to `USERS`, at random. */
const CALLERS = {
  "all users use about the same": `1 + floor(random() * ${USERS})::int`,
  "a few users use most": `floor(power(${USERS}, random()))::int`,
};
type Usage = keyof typeof CALLERS;
type Sum = { id: string; tokens: number };
const byId = (a: Sum, b: Sum) => (a.id < b.id ? -1 : 1);

/** A store with calls of the last days. Half of the users have an API key, with the id of the user. */
async function openFilled(usage: Usage, opening: Promise<Store> = openMigratedStore()) {
  const store = await opening;
  const sql = <T>(text: string, values: unknown[] = []) => store.fork().execute<T[]>(text, values);
  const users = await insertUsers(store, USERS);
  await sql("update ai_usage_summing set summed_from = '-infinity'"); // no earlier release has written calls
  let now = NOW;
  const add = (calls: number, days = DAYS) =>
    sql(
      `insert into ai_usage (id, user_id, api_key_id, provider, model, outcome, input_tokens, output_tokens, created_at)
       select gen_random_uuid(), ids[n], case when n % 2 = 0 then ids[n] end, 'p', 'm' || n % 3, 'completed',
         (random() * 900)::int, (random() * 700)::int, ?::timestamptz - random() * ? * interval '1 day'
       from (select ?::uuid[] as ids, ${CALLERS[usage]} as n from generate_series(1, ?)) as calls`,
      [now, days, `{${users.join()}}`, calls],
    );
  const textOf = (daysAgo: number) =>
    new Date(now.getTime() - daysAgo * DAY_MS).toISOString().slice(0, 10);

  /** The sums of all calls by user or key, added up one by one, largest first. */
  const sumsOf = (column: string, [first, last]: readonly [number, number]) =>
    sql<Sum>(
      `select ${column}::text as id, sum(input_tokens + output_tokens)::float8 as tokens from ai_usage
       where ${column} is not null and (created_at at time zone 'UTC')::date between ?::date and ?::date
       group by 1 order by 2 desc`,
      [textOf(first), textOf(last)],
    );
  const topUsers = async ([first, last]: readonly [number, number], limit: number) =>
    (
      await findTopUsers(
        { em: store.fork() },
        { firstDay: textOf(first), lastDay: textOf(last), limit },
      )
    ).map(({ userId, tokens }) => ({ id: userId, tokens }));
  const topKeys = async ([first, last]: readonly [number, number], limit: number) => {
    const rows = await sumPartDays(
      { em: store.fork() },
      { by: "key", userId: null, firstDay: textOf(first), lastDay: textOf(last), limit },
    );
    const sums = new Map<string, number>();
    for (const { part, inputTokens, outputTokens } of rows)
      sums.set(part, (sums.get(part) ?? 0) + inputTokens + outputTokens);
    return [...sums].map(([id, tokens]) => ({ id, tokens })).sort((a, b) => b.tokens - a.tokens);
  };

  /** Compares a response with all calls. Among equal sums any may be listed. */
  async function compare(period: readonly [number, number], limit: number) {
    for (const [column, top] of [
      ["user_id", topUsers],
      ["api_key_id", topKeys],
    ] as const) {
      const found = await top(period, limit);
      const all = await sumsOf(column, period);
      const tokensOf = new Map(all.map(({ id, tokens }) => [id, tokens]));
      const about = { column, period, limit };
      expect({ ...about, found }).toEqual({
        ...about,
        found: found.map(({ id }) => ({ id, tokens: tokensOf.get(id) })),
      });
      expect({ ...about, sums: found.map(({ tokens }) => tokens) }).toEqual({
        ...about,
        sums: all.slice(0, limit).map(({ tokens }) => tokens),
      });
    }
  }

  /** Compares the periods of the console, and others at random. */
  async function compareMany() {
    for (const period of [
      [6, 0],
      [29, 0],
      [89, 0],
    ] as const)
      await compare(period, 20);
    for (const limit of LIMITS) {
      const first = Math.floor(Math.random() * (DAYS + 1));
      await compare([first, Math.floor(Math.random() * (first + 1))], limit);
    }
  }

  /** As the erasure of a user does, before its row is deleted. */
  const erase = async (id: string | undefined) => {
    await sql("update ai_usage set user_id = null, api_key_id = null where user_id = ?", [id]);
    await sql("delete from users where id = ?", [id]);
  };

  return {
    ...{ store, erase, sql, users, add, sumsOf, topUsers, topKeys, compare, compareMany, textOf },
    advance(ms: number) {
      now = new Date(now.getTime() + ms);
    },
    closeAll: () => closeDays(store, now, config, running),
    /** Leaves 20 users in each ranking, as if it were that short. */
    async shorten() {
      await sql(
        `update ai_usage_rankings r set others = coalesce((
           select tokens from ai_usage_ranked_users u where u.first_day = r.first_day and u.last_day = r.last_day
           order by tokens desc offset 19 limit 1), 0)`,
      );
      await sql(
        `delete from ai_usage_ranked_users u using ai_usage_rankings r
         where u.first_day = r.first_day and u.last_day = r.last_day and u.tokens < r.others`,
      );
    },
    /** Makes the rankings useless: everybody else may have any number of tokens. */
    spoil: () => sql("update ai_usage_rankings set others = 1000000000000"),
    rankings: (daysAgo: number) =>
      sql<{ last: string }>(
        "select last_day::text as last from ai_usage_rankings where first_day = ?::date",
        [textOf(daysAgo)],
      ),
    close: () => store.close(),
  };
}

describe.each(ENGINES)("Sums of AI usage by user and key, %s", (engine) => {
  const open = (usage: Usage) => forTest(openFilled(usage, openMigratedStore(engine)));

  test.each(Object.keys(CALLERS) as Usage[])(
    "are those of all calls, of any period, whatever is closed and ranked: %s",
    async (usage) => {
      const { sql, add, compareMany, closeAll, shorten, advance } = await open(usage);
      await add(CALLS);
      await compareMany();
      await closeAll();
      await compareMany();
      await shorten();
      await compareMany();
      await add(50);
      await sql(
        `update ai_usage set input_tokens = 0, output_tokens = 0 where user_id in (
             select user_id from ai_usage_ranked_users order by tokens desc limit 10)`,
      );
      await compareMany();
      advance(11 * MINUTE_MS);
      await closeAll();
      await compareMany();
      advance(DAY_MS);
      await add(300, 1);
      await compareMany(); // the day that is over is not closed yet
      await closeAll();
      await shorten();
      await compareMany();
    },
  );

  test("a period that no ranking settles is ranked when it is asked for, until days are ranked again", async () => {
    const filled = await open("all users use about the same");
    const { sql, add, users, erase, compare, closeAll, advance, spoil, rankings, textOf } = filled;
    await add(CALLS);
    await closeAll();
    await spoil();
    await compare([40, 0], 20);
    expect(await rankings(40)).toEqual([{ last: textOf(1) }]);
    await spoil();
    await compare([40, 12], 20);
    expect((await rankings(40)).map(({ last }) => last).sort()).toEqual([textOf(12), textOf(1)]);
    await add(100);
    await compare([40, 0], 20);
    await compare([40, 12], 100);
    await erase(users[0]);
    await compare([40, 0], 100);
    expect(await sql("select 1 from ai_usage_ranked_users where user_id = ?", [users[0]])).toEqual(
      [],
    );
    advance(11 * MINUTE_MS);
    await closeAll();
    expect(await rankings(40)).toEqual([]);
    await compare([40, 0], 20);
  });

  test("API keys are found in sums of whole periods, until one of their days changes", async () => {
    const { sql, add, sumsOf, topKeys, closeAll, compare, textOf } =
      await open("a few users use most");
    await add(CALLS);
    await closeAll();
    const sums = await sql<Sum>(
      `select api_key_id::text as id, tokens::float8 as tokens from ai_usage_key_periods
         where first_day = ?::date and last_day = ?::date`,
      [textOf(29), textOf(1)],
    );
    const expected = await sumsOf("api_key_id", [29, 1]);
    expect(sums.sort(byId)).toEqual(expected.toSorted(byId));
    const least = expected.at(-1)?.id;
    await sql("update ai_usage_key_periods set tokens = tokens + 1000000000 where api_key_id = ?", [
      least,
    ]);
    expect((await topKeys([29, 0], 5)).map(({ id }) => id)).toContain(least);
    await sql(
      `update ai_usage set input_tokens = input_tokens + 1 where id = (
           select id from ai_usage where created_at < ?::timestamptz order by created_at desc limit 1)`,
      [textOf(0)],
    );
    await compare([29, 0], 5);
    await closeAll();
    await compare([29, 0], 5);
  });

  test("sums of API keys over whole periods end with the user, with USAGE_RETENTION and with a restored backup", async () => {
    const { store, sql, add, users, erase, closeAll } = await open("a few users use most");
    await add(CALLS);
    await closeAll();
    const ofKey = () => sql("select 1 from ai_usage_key_periods where api_key_id = ?", [users[1]]);
    const firstDays = async () =>
      (
        await sql<{ ago: number }>(
          "select distinct ?::date - first_day as ago from ai_usage_key_periods order by 1",
          [NOW],
        )
      ).map(({ ago }) => ago);
    expect(await ofKey()).not.toEqual([]);
    await erase(users[1]);
    expect(await ofKey()).toEqual([]);
    expect(await firstDays()).toEqual([5, 6, 28, 29, 88, 89]);
    await forgetClosedDays({ em: store.fork() }, new Date(NOW.getTime() - 28 * DAY_MS));
    expect(await firstDays()).toEqual([5, 6, 28]);
    await store.fork().transactional((em) => reopenDays({ em }));
    expect(await firstDays()).toEqual([]);
  });
});

describeIf(
  process.env.TEST_SERVERS,
  "Sums of AI usage at the same time, on PostgreSQL",
  async () => {
    test("are those of all calls while calls are written, days are closed and periods are ranked", async () => {
      const url = await createMigratedDatabase();
      const filled = await forTest(openFilled("all users use about the same", openQuietStore(url)));
      const { store, sql, add, topUsers, compareMany, compare, spoil } = filled;
      const other = await forTest(openQuietStore(url));
      await add(CALLS);
      for (const minutes of [0, 11, 22]) {
        const now = new Date(NOW.getTime() + minutes * MINUTE_MS);
        await spoil();
        await Promise.all([
          ...[store, other].map((each) => closeDays(each, now, config, running)),
          ...times(12, (i) => topUsers([20 + 2 * i, i % 4], 20)),
          ...times(20, () => add(3)),
          ...times(20, () =>
            sql(
              "update ai_usage set output_tokens = output_tokens + 500 where id = (select id from ai_usage order by random() limit 1)",
            ),
          ),
        ]);
        for (const i of [0, 3, 11]) await compare([20 + 2 * i, i % 4], 20);
        await compareMany();
      }
    });

    test("a period is not ranked while a user is erased, and the request is answered", async () => {
      const url = await createMigratedDatabase();
      const filled = await forTest(openFilled("all users use about the same", openQuietStore(url)));
      const { add, users, closeAll, spoil, rankings, compare } = filled;
      await add(CALLS);
      await closeAll();
      await spoil();
      const erasure = await begin(url, "select 1 from users where id = $1 for update", [users[0]]);
      await compare([40, 0], 20);
      expect(await rankings(40)).toEqual([]);
      await erasure.run(
        "update ai_usage set user_id = null, api_key_id = null where user_id = $1",
        [users[0]],
      );
      await erasure.run("delete from users where id = $1", [users[0]]);
      await erasure.commit();
      await compare([40, 0], 20);
      expect(await rankings(40)).toHaveLength(1);
    });
  },
);
