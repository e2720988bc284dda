import { setTimeout as wait } from "node:timers/promises";
import { v7 as uuid } from "uuid";
import { expect, test } from "vitest";
import { createApiKey } from "../../services/platform/gate/api-key.ts";
import { budgetCatalogue } from "../support/ai/budget-catalogue.ts";
import { startMeteredProvider } from "../support/ai/metered-provider.ts";
import { insertBudget } from "../support/database/budgets.ts";
import { runSql } from "../support/database/databases.ts";
import { POSTGRES_BIN, startPostgresServer } from "../support/database/postgres-server.ts";
import { insertUsers, openQuietStore } from "../support/database/store.ts";
import { postJson } from "../support/http/client.ts";
import { type Process, sharedVariables, startProcess } from "../support/processes/processes.ts";
import { describeIf, forSuite } from "../support/suites.ts";
import { tally, times } from "../support/tally.ts";
import { until } from "../support/until.ts";

const ROUNDS = Number(process.env.RACE_ROUNDS ?? (process.env.TEST_FULL ? 20 : 1));
/** Rounds with a crash take half a minute each on a busy machine. */
const LONGEST_RACES_MS = 120_000 + ROUNDS * 30_000;
/** Calls of each of the two replicas in a round. */
const CALLS = process.env.TEST_FULL ? 500 : 120;
const USERS = 5;
/** The longest duration of a call, in seconds. */
const LONGEST = 20;
/** What every call asks for: some input, and at most this many tokens of output. */
const MOST_OUTPUT = 200;

type Sums = {
  limit: number;
  used: number;
  reserved: number;
  rowsUsed: number;
  rowsReserved: number;
};

/** Every counter of a database beside the sums of the rows. Each call has reserved. */
const sumsOf = (url: string) =>
  runSql<Sums>(
    url,
    `select b.limit_amount::float8 as "limit", c.used::float8 as used, c.reserved::float8 as reserved,
       coalesce(sum(case when u.reserved is not null then 0 when b.unit = 'cost' then u.cost_nanos
         else u.input_tokens + u.output_tokens end), 0)::float8 as "rowsUsed",
       coalesce(sum((select (held->>'held')::float8 from jsonb_array_elements(u.reserved->'counters') as held
         where held->>'budget' = b.id::text and held->>'subject' = c.subject)), 0)::float8 as "rowsReserved"
     from budget_counters c join budgets b on b.id = c.budget_id
     left join ai_usage u on b.scope = 'deployment' or u.user_id::text = c.subject
     group by b.id, c.subject, c.period_start, c.used, c.reserved, b.limit_amount, b.unit`,
  );

/** Expects that no budget is exceeded, and that counters and rows agree. */
async function expectExact(url: string): Promise<Sums[]> {
  const sums = await sumsOf(url);
  expect(sums.length).toBe(1 + 2 * USERS);
  for (const each of sums) {
    expect(each.used + each.reserved).toBeLessThanOrEqual(each.limit);
    expect([each.used, each.reserved]).toEqual([each.rowsUsed, each.rowsReserved]);
  }
  return sums;
}

describeIf(POSTGRES_BIN && process.env.TEST_SERVERS, "Budgets on two replicas", async () => {
  const provider = await forSuite(startMeteredProvider());
  const postgres = await forSuite(startPostgresServer());
  const env = {
    ...sharedVariables(),
    ...provider.env,
    AI_CATALOG: budgetCatalogue(),
    RATE_LIMITS: "off",
    AI_STREAMS_PER_SERVICE_ACCOUNT: "9999",
    DATABASE_URL: postgres.url,
    SHUTDOWN_TIMEOUT: "1s",
    AI_TOTAL_TIMEOUT: `${LONGEST}s`,
  };
  const replicas: Process[] = [];
  const start = async (index: number) => {
    replicas[index] = await startProcess(env);
  };
  await start(0);
  await start(1);
  await forSuite({ close: () => Promise.all(replicas.map((each) => each.end("SIGKILL"))) });

  /**
   * Users with a key and a budget of tokens each, beside budgets of the role and the deployment.
   */
  async function prepare(): Promise<string[]> {
    const store = await openQuietStore(postgres.url);
    const em = store.fork();
    await em.execute("delete from budgets");
    await em.execute("delete from ai_usage");
    const unique = uuid();
    const now = new Date();
    const keys: string[] = [];
    // a call uses about 100 tokens, and each budget suffices for about a third of them
    const perUser = Math.ceil((2 * CALLS) / USERS / 3) * 100;
    await insertBudget(store, {
      scope: "deployment",
      unit: "cost",
      limit: perUser * USERS * 3_500,
    });
    await insertBudget(store, { scope: "role", subject: "user", period: "day", limit: perUser });
    for (let index = 0; index < USERS; index++) {
      const email = `${unique}-${index}@example.com`;
      const [userId = ""] = await insertUsers(store, 1, { email, canonicalEmail: email });
      const { key, digest, hint } = createApiKey();
      await em.execute(
        `insert into api_keys (id, user_id, digest, hint, name, created_at, created_by) values (?, ?, decode(?, 'hex'), ?, 'CI', ?, ?)`,
        [uuid(), userId, digest, hint, now, userId],
      );
      keys.push(key);
      await insertBudget(store, {
        scope: "user",
        subject: userId,
        unit: "cost",
        limit: perUser * 4_000,
      });
    }
    await store.close();
    return keys;
  }

  /** A request for a stream of a number of tokens. */
  type Ask = (tokens: number) => { path: string; request: object };
  const askModel: Ask = (tokens) => ({
    path: "/ai/stream",
    request: {
      ...{ provider: "provider-a", model: "model-a-1", maxTokens: MOST_OUTPUT },
      messages: [{ role: "user", content: `${tokens} tokens, 1 ms each` }],
    },
  });
  /** The first model of the alias fails for half of the requests. */
  const askAlias: Ask = (tokens) => ({
    path: "/v1/chat/completions",
    request: {
      ...{ model: "assistant", max_tokens: MOST_OUTPUT, stream: true },
      messages: [
        {
          role: "user",
          content: `${tokens} tokens, 1 ms each${tokens % 2 ? ", 503 by gpt-6.1-sol" : ""}`,
        },
      ],
    },
  });

  /**
   * Streams of the first replica that have begun. A process that has just started is slower than
   * the other.
   */
  let begunAtFirst = 0;

  /** A stream, which every third client leaves in the middle. */
  async function call(key: string, index: number, ask: Ask): Promise<string> {
    const replica = replicas[index % 2] as Process;
    const leaving = new AbortController();
    const { path, request } = ask(index % MOST_OUTPUT);
    try {
      const answer = await postJson(replica.url + path, request, key, leaving.signal);
      if (answer.status !== 200) return String(answer.status);
      if (index % 2 === 0) begunAtFirst++;
      if (index % 3 === 0) {
        await answer.body?.getReader().read();
        leaving.abort();
        return "left";
      }
      await answer.text();
      return "read";
    } catch {
      return "broken"; // the replica has died
    }
  }

  const raceOf = (keys: readonly string[], ask = askModel) =>
    Promise.all(times(2 * CALLS, (index) => call(keys[index % keys.length] as string, index, ask)));

  function startedRaceOf(keys: readonly string[]) {
    const before = begunAtFirst;
    const outcomes = raceOf(keys);
    const begun = until("some calls of the first replica", () => begunAtFirst > before + 5);
    return { outcomes, begun };
  }

  const settled = () =>
    until("every call to be booked", async () => {
      const sums = await sumsOf(postgres.url);
      return sums.every(({ reserved }) => reserved === 0) ? sums : undefined;
    });

  /** Prepares a round, once both replicas know that there are budgets. */
  async function round(): Promise<string[]> {
    const keys = await prepare();
    await wait(1_000); // a replica reads every 750 ms whether there is a budget
    return keys;
  }

  test(`${2 * CALLS} concurrent streams exceed none of three budgets while every third client disconnects (rounds: ${ROUNDS})`, async () => {
    for (let each = 0; each < ROUNDS; each++) {
      const keys = await round();
      const outcomes = tally(await raceOf(keys), (outcome) => outcome);
      expect(Object.keys(outcomes).sort()).toEqual(["429", "left", "read"]);
      await settled();
      const sums = await expectExact(postgres.url);
      expect(Math.max(...sums.map(({ used }) => used))).toBeGreaterThan(0);
    }
    const [stat] = await runSql(
      postgres.url,
      "select deadlocks::int from pg_stat_database where datname = current_database()",
    );
    expect(stat).toEqual({ deadlocks: 0 });
  });

  test("streams of an alias whose first model fails for half of them exceed none of three budgets", async () => {
    const keys = await round();
    const outcomes = tally(await raceOf(keys, askAlias), (outcome) => outcome);
    expect(Object.keys(outcomes).sort()).toEqual(["429", "left", "read"]);
    await settled();
    await expectExact(postgres.url);
    const models = await runSql(
      postgres.url,
      "select model, min(attempts) as attempts from ai_usage group by model order by model",
    );
    expect(models).toEqual([
      { model: "model-a-1", attempts: 1 },
      { model: "model-a-3", attempts: 2 },
    ]);
  });

  /** Races while a replica is killed. Its calls hold what they may have used. */
  async function raceKilling(): Promise<void> {
    const racing = startedRaceOf(await round());
    await racing.begun;
    await replicas[0]?.end("SIGKILL");
    const outcomes = tally(await racing.outcomes, (outcome) => outcome);
    expect(outcomes.broken).toBeGreaterThan(0);
    await expectExact(postgres.url);
  }

  test(
    `SIGKILL of a replica during the race leaves the reservations of its calls, and exceeds no budget (rounds: ${ROUNDS})`,
    async () => {
      for (let each = 1; each < ROUNDS; each++) {
        await raceKilling();
        await start(0);
      }
      await raceKilling();
      // as if the longest duration of a call had passed
      await runSql(
        postgres.url,
        "update ai_usage set created_at = created_at - interval '1 hour' where reserved is not null",
      );
      await start(0); // the first run of the job of a process searches all calls
      await settled();
      const sums = await expectExact(postgres.url);
      expect(sums.every(({ reserved }) => reserved === 0)).toBe(true);
      const [lost] = await runSql(
        postgres.url,
        "select count(*)::int as calls from ai_usage where outcome = 'lost' and estimated",
      );
      expect(lost.calls).toBeGreaterThan(0);
    },
    LONGEST_RACES_MS,
  );

  test.runIf(process.env.TEST_FULL)(
    "SIGKILL of a replica leaves no reservation older than the longest call plus two minutes",
    async () => {
      await raceKilling();
      const oldest = async () => {
        const [row] = await runSql<{ seconds: number | null; held: number }>(
          postgres.url,
          `select extract(epoch from now() - min(created_at))::float8 as seconds, count(*)::int as held
           from ai_usage where reserved is not null`,
        );
        return row ?? { seconds: null, held: 0 };
      };
      expect((await oldest()).held).toBeGreaterThan(0);
      let seconds = 0;
      for (let found = await oldest(); found.seconds !== null; found = await oldest()) {
        expect(found.seconds).toBeLessThan(LONGEST + 120);
        seconds = found.seconds;
        await wait(1_000);
      }
      expect(seconds).toBeGreaterThan(LONGEST);
      await expectExact(postgres.url); // nothing is undercounted
      await start(0);
    },
    200_000,
  );

  test("SIGTERM books the calls that it interrupts, and leaves no reservation", async () => {
    const keys = await round();
    const { url } = replicas[0] as Process;
    const { path, request } = askModel(MOST_OUTPUT);
    const slow = JSON.parse(JSON.stringify(request).replace("1 ms", "50 ms"));
    const answers = await Promise.all(keys.map((key) => postJson(url + path, slow, key)));
    expect(answers.map(({ status }) => status)).toEqual(keys.map(() => 200));
    await Promise.all(answers.map(({ body }) => body?.getReader().read()));
    expect(await replicas[0]?.end("SIGTERM")).toBe(0);
    const sums = await expectExact(postgres.url);
    expect(sums.map(({ reserved }) => reserved)).toEqual(sums.map(() => 0));
    const outcomes = await runSql(
      postgres.url,
      "select outcome, count(*)::int as calls, min(output_tokens) > 0 as written from ai_usage group by outcome",
    );
    expect(outcomes).toEqual([{ outcome: "cancelled", calls: USERS, written: true }]);
    await start(0);
  });

  test(
    `a crash of PostgreSQL during the race refuses calls until it is back, and exceeds no budget (rounds: ${ROUNDS})`,
    async () => {
      for (let each = 0; each < ROUNDS; each++) {
        const keys = await round();
        const racing = startedRaceOf(keys);
        await racing.begun;
        await postgres.kill();
        const outcomes = tally(await racing.outcomes, (outcome) => outcome);
        expect(Object.keys(outcomes)).not.toContain("500");
        const later = tally(await raceOf(keys), (outcome) => outcome);
        expect(Object.keys(later)).not.toContain("500");
        await until("the ends of calls to be booked", async () => {
          const sums = await sumsOf(postgres.url);
          return sums.every(({ used, rowsUsed }) => used === rowsUsed);
        });
        await expectExact(postgres.url);
      }
    },
    LONGEST_RACES_MS,
  );
});
