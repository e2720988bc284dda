import { describe, expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { tokensIn } from "../../../scripts/simulators/dialect-encoder.ts";
import { PREFIX } from "../../../scripts/simulators/script.ts";
import { conversationOf, PROVIDERS } from "../../support/ai/calls.ts";
import { completionOf, readCompletion } from "../../support/ai/completions.ts";
import {
  type Billed,
  billionthsIn,
  moneyIn,
  PRICES,
  pricedCatalogue,
  type TestPrice,
  truthOf,
} from "../../support/ai/priced-catalogue.ts";
import { createKey } from "../../support/api-keys.ts";
import { startSuiteApp } from "../../support/app.ts";
import { postJson } from "../../support/http/client.ts";

const env = { RATE_LIMITS: "off", AI_CATALOG: pricedCatalogue() };
const app = await startSuiteApp({ env });
const admin = await app.signInAdmin();
const modelOf = (provider: string) => `model-${provider.at(-1)}-1`;
const priceOf = (provider: string) => PRICES[provider] as TestPrice;

/** The case with which a simulator reports these tokens. */
const caseOf = (billed: Billed, reasoning: number, name = "billed") => {
  const { fresh, cached, written, writtenForHour, output } = billed;
  const input = fresh + cached + written + writtenForHour;
  return `case: ${name} ${[input, output, cached, written + writtenForHour, writtenForHour, reasoning]}`;
};

/** Numbers that are the same in every run. */
function numbersFrom(seed: number) {
  let state = seed;
  return (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** Tokens of a call, as its provider can report them. Some calls are above the tiers. */
function randomCall(number: (below: number) => number) {
  const provider = PROVIDERS[number(4)] as string;
  const scale = number(10) === 0 ? 200_000 : 2_000;
  const mayWrite = provider === "provider-a" || provider === "provider-b";
  const billed: Billed = {
    fresh: 1 + number(scale),
    cached: number(3) === 0 ? number(scale) : 0,
    written: mayWrite && number(3) === 0 ? number(scale) : 0,
    writtenForHour: provider === "provider-b" && number(4) === 0 ? number(scale) : 0,
    output: 1 + number(3_000),
  };
  return { provider, billed, reasoning: number(2) === 0 ? number(billed.output) : 0 };
}

test("GET /ai/providers: shows the currency of providers with priced models, over gRPC too", async () => {
  const account = await app.signIn();
  const { body } = await account.get("/ai/providers");
  type Listed = { provider: string; currency?: string };
  const currencies = Object.fromEntries(
    body.map(({ provider, currency }: Listed) => [provider, currency]),
  );
  expect(currencies["provider-a"]).toBe("EUR");
  const { providers } = await app.grpc(AIService).listProviders({}, account);
  expect(providers[0]).toMatchObject({ provider: body[0].provider, currency: "EUR" });
});

/** How a model is called: by route and RPC, whole and streamed. */
const WAYS = ["/ai/chat", "/ai/stream", "/v1 whole", "/v1 stream"] as const;
type Account = Awaited<ReturnType<typeof app.signIn>>;

/** @returns the cost that the reply names; undefined for those that have none */
async function call({ post }: Account, way: (typeof WAYS)[number], provider: string, text: string) {
  if (way.startsWith("/ai")) {
    const { status, body } = await post(way, conversationOf(text, provider));
    expect(status).toBe(200);
    expect(JSON.stringify(body)).not.toContain("cost");
    return undefined;
  }
  const request = { model: modelOf(provider), messages: [{ role: "user", content: text }] };
  const stream = way === "/v1 stream";
  const options = stream && { stream, stream_options: { include_usage: true } };
  const reply = await post("/v1/chat/completions", { ...request, ...options });
  expect(reply.status).toBe(200);
  if (!stream) return reply.body.usage.cost;
  const [, usage = "{}"] = /"usage":(\{.*\})\}\n\ndata: \[DONE\]/.exec(reply.text) ?? [];
  return JSON.parse(usage).cost;
}

const CALLS = process.env.TEST_FULL ? 10_000 : 200;
const PARALLEL = 20;

test(`POST /ai/chat, /ai/stream, /v1/chat/completions: the costs of ${CALLS} mixed calls match their tokens exactly`, async () => {
  const account = await app.signIn();
  const number = numbersFrom(7);
  let truth = 0n;
  const tokens = { calls: 0, input: 0, output: 0, cached: 0, reasoning: 0 };
  const next = async (): Promise<void> => {
    if (tokens.calls === CALLS) return;
    const way = WAYS[tokens.calls % WAYS.length] as (typeof WAYS)[number];
    const { provider, billed, reasoning } = randomCall(number);
    const cost = truthOf(priceOf(provider), billed);
    truth += cost;
    tokens.calls += 1;
    tokens.input += billed.fresh + billed.cached + billed.written + billed.writtenForHour;
    tokens.output += billed.output;
    tokens.cached += billed.cached;
    tokens.reasoning += reasoning;
    const text = caseOf(billed, reasoning);
    const named = await call(account, way, provider, text);
    expect(named, `${way} ${provider} ${text}`).toBe(
      way.startsWith("/v1") ? moneyIn(cost) : undefined,
    );
    return next();
  };
  await Promise.all(Array.from({ length: PARALLEL }, next));
  await expect
    .poll(() =>
      app.sql(
        `select count(*)::int as calls, sum(cost_nanos)::text as cost, sum(input_tokens)::int as input,
           sum(output_tokens)::int as output, sum(cached_input_tokens)::int as cached, sum(reasoning_tokens)::int as reasoning
         from ai_usage where user_id = ? and outcome = 'completed' and not estimated and attempts = 1`,
        [account.user.id],
      ),
    )
    .toEqual([{ ...tokens, cost: String(truth) }]);
  const { body: rows } = await account.get("/user/usage");
  const sum = (countOf: (row: Record<string, string>) => bigint) =>
    rows.reduce((total: bigint, row: Record<string, string>) => total + countOf(row), 0n);
  expect(sum((row) => billionthsIn(row.cost ?? "0"))).toBe(truth);
  expect(sum((row) => BigInt(row.cachedInputTokens ?? 0))).toBe(BigInt(tokens.cached));
  expect(sum((row) => BigInt(row.reasoningTokens ?? 0))).toBe(BigInt(tokens.reasoning));
  for (const groupBy of ["day", "model", "user"]) {
    const { body } = await admin.get(
      `/admin/usage/sums?userId=${account.user.id}&groupBy=${groupBy}`,
    );
    expect(body).toMatchObject({
      currency: "EUR",
      pricesAsOf: "2026-11-28",
      totals: {
        ...{ cost: moneyIn(truth), unpricedCalls: 0, calls: tokens.calls },
        ...{ cachedInputTokens: tokens.cached, reasoningTokens: tokens.reasoning },
      },
    });
    const costs = body.groups.map(({ usage }: { usage: { cost: string } }) =>
      billionthsIn(usage.cost),
    );
    expect(costs.reduce((total: bigint, cost: bigint) => total + cost, 0n)).toBe(truth);
  }
  const [summed] = await app.sql<{ cost: string }>(
    "select sum(cost_nanos)::text as cost, sum(priced_calls)::int as calls from ai_usage_users where user_id = ?",
    [account.user.id],
  );
  expect(summed).toEqual({ cost: String(truth), calls: CALLS });
}, 300_000);

describe.each(PROVIDERS)("Cost of an interrupted stream of %s", (provider) => {
  const billed = {
    ...{ fresh: 700, cached: 4_000, output: 900 },
    written: provider === "provider-b" ? 200 : 0,
    writtenForHour: provider === "provider-b" ? 100 : 0,
  };
  const input = 4_700 + billed.written + billed.writtenForHour;
  const text = (name: string) => caseOf(billed, 600, name);
  /** What is known when the reply breaks off: what was reported by then, or else an estimate. */
  const knownOf = (name: string) => {
    const output = tokensIn(PREFIX);
    const known = { ...billed, output };
    if (provider === "provider-b") return { input, cached: 4_000, known };
    if (provider === "provider-c") {
      // Google reports the output so far, too: three pieces and all thoughts
      return { input, cached: 4_000, known: { ...known, output: 603 } };
    }
    const fresh = tokensIn(text(name));
    const nothing = { fresh, cached: 0, written: 0, writtenForHour: 0, output };
    return { input: fresh, cached: null, known: nothing };
  };
  const rowOf = (userId: string) =>
    app.sql(
      `select outcome, input_tokens, output_tokens, cached_input_tokens, estimated, cost_nanos::text from ai_usage
       where user_id = ? and outcome <> 'running'`,
      [userId],
    );
  const expected = (name: string, outcome: string) => {
    const { input, cached, known } = knownOf(name);
    return [
      {
        ...{ outcome, input_tokens: input, output_tokens: known.output, estimated: true },
        cached_input_tokens: cached,
        cost_nanos: String(truthOf(priceOf(provider), known)),
      },
    ];
  };

  test("covers the reported or estimated tokens if the provider breaks it off", async () => {
    const { post, user } = await app.signIn();
    const name = "reset-midway-billed";
    await post("/ai/stream", conversationOf(text(name), provider));
    await expect.poll(() => rowOf(user.id)).toEqual(expected(name, "broke off"));
  });

  test("covers the reported or estimated tokens if the client aborts it", async () => {
    const { accessToken, user } = await app.signIn();
    const name = "silent-midway-billed";
    const gone = new AbortController();
    const { body } = await postJson(
      `${app.url}/ai/stream`,
      conversationOf(text(name), provider),
      accessToken,
      gone.signal,
    );
    let read = "";
    const decoder = new TextDecoder();
    for await (const part of body ?? []) {
      read += decoder.decode(part, { stream: true });
      const chunks = [...read.matchAll(/^data: (\{.*\})$/gm)].map(([, json = ""]) =>
        JSON.parse(json),
      );
      if (chunks.map(({ chunk }) => chunk).join("") === PREFIX) break;
    }
    gone.abort();
    await expect.poll(() => rowOf(user.id)).toEqual(expected(name, "cancelled"));
  });
});

test.each([
  ["bad-key", "refused the key", 1],
  ["overloaded", "overloaded", 3],
])("POST /ai/chat: a call that fails with %s costs nothing", async (name, outcome, attempts) => {
  const { post, user } = await app.signIn();
  await post("/ai/chat", conversationOf(`case: ${name}`));
  await expect
    .poll(() =>
      app.sql("select outcome, attempts, cost_nanos::text from ai_usage where user_id = ?", [
        user.id,
      ]),
    )
    .toEqual([{ outcome, attempts, cost_nanos: "0" }]);
});

test("Complete: the usage of a reply contains its cost", async () => {
  const account = await app.signIn();
  const billed = { fresh: 10, cached: 20, written: 30, writtenForHour: 40, output: 50 };
  const request = completionOf(caseOf(billed, 5), "model-b-1");
  const { finished } = await readCompletion(app, request, account);
  expect(finished?.usage).toMatchObject({
    ...{ inputTokens: 100, outputTokens: 50, cachedInputTokens: 20, cacheWriteTokens: 70 },
    ...{ cacheWrite1hTokens: 40, reasoningTokens: 5 },
    cost: moneyIn(truthOf(priceOf("provider-b"), billed)),
  });
});

test.each([false, true])(
  "POST /v1/chat/completions: the cost in the reply is that of the usage, with a repeated attempt (stream: %s)",
  async (stream) => {
    const { post, user } = await app.signIn();
    const text = `case: reset-after-headers-once ${crypto.randomUUID()}`;
    const options = stream ? { stream, stream_options: { include_usage: true } } : {};
    const messages = [{ role: "user", content: text }];
    const reply = await post("/v1/chat/completions", { model: "model-b-1", messages, ...options });
    const [, usage = "{}"] = /"usage":(\{[^\n]*?\})\}(?:\n|$)/.exec(reply.text) ?? [];
    const { prompt_tokens: input, completion_tokens: output, cost, ...details } = JSON.parse(usage);
    const { cached_tokens: cached } = details.prompt_tokens_details;
    const billed = { cached, written: 0, writtenForHour: 0, output };
    const truth = truthOf(priceOf("provider-b"), { ...billed, fresh: 2 * input - cached });
    expect(cost).toBe(moneyIn(truth));
    await expect
      .poll(() =>
        app.sql(
          "select attempts, input_tokens, cost_nanos::text as cost from ai_usage where user_id = ? and outcome = 'completed'",
          [user.id],
        ),
      )
      .toEqual([{ attempts: 2, input_tokens: 2 * input, cost: String(truth) }]);
  },
);

test("GET /user/usage, GET /admin/usage: group by key and by alias, with the cost of each", async () => {
  const account = await app.signIn();
  const { user, get } = account;
  const { key, apiKey } = await createKey(account);
  const billed = { fresh: 1_000, cached: 0, written: 0, writtenForHour: 0, output: 100 };
  const conversation = conversationOf(caseOf(billed, 0));
  await postJson(`${app.url}/ai/chat`, conversation, key);
  await account.post("/ai/chat", conversation);
  const lines = async (path: string) =>
    (await (path.startsWith("/admin") ? admin.get : get)(path)).body;
  const cost = moneyIn(truthOf(priceOf("provider-a"), billed));
  const common = { userId: user.id, model: "model-a-1", currency: "EUR", unpricedCalls: 0 };
  for (const path of ["/user/usage?", `/admin/usage?userId=${user.id}&`]) {
    await expect
      .poll(() => lines(`${path}groupBy=key`))
      .toMatchObject([
        { ...common, apiKeyId: apiKey.id, calls: 1, cost },
        { ...common, calls: 1, cost },
      ]);
    await app.sql("update ai_usage set alias = 'assistant' where api_key_id = ?", [apiKey.id]);
    const byAlias = await lines(`${path}groupBy=alias`);
    expect(byAlias).toMatchObject([
      { ...common, alias: "assistant", cost },
      { ...common, cost },
    ]);
    expect(byAlias[1]).not.toHaveProperty("alias");
    expect(byAlias[0]).not.toHaveProperty("apiKeyId");
    const [all] = await lines(path);
    const twice = 2n * truthOf(priceOf("provider-a"), billed);
    expect(all).toMatchObject({ ...common, calls: 2, cost: moneyIn(twice) });
    expect((await lines(`${path}groupBy=model`)).violations).toMatchObject([{ field: "groupBy" }]);
  }
});

test("GET /admin/usage.csv: contains the rows of GET /admin/usage, and no formulas", async () => {
  const account = await app.signIn(await app.addUser({ name: '=cmd "x", y' }));
  const billed = { fresh: 1_000, cached: 300, written: 0, writtenForHour: 0, output: 100 };
  await account.post("/ai/chat", conversationOf(caseOf(billed, 40)));
  const path = `/admin/usage.csv?userId=${account.user.id}`;
  const cost = moneyIn(truthOf(priceOf("provider-a"), billed));
  const day = app.clock.now().toISOString().slice(0, 10);
  const { id, email } = account.user;
  const header =
    "day,userId,userName,userEmail,apiKeyId,alias,provider,model,calls,inputTokens,cachedInputTokens,outputTokens,reasoningTokens,estimatedCalls,cost,currency,unpricedCalls";
  const line = `${day},${id},"'=cmd ""x"", y",${email},,,provider-a,model-a-1,1,1300,300,100,40,0,${cost},EUR,0`;
  await expect.poll(async () => (await admin.get(path)).text).toBe(`${header}\r\n${line}\r\n`);
  const { headers, status } = await admin.get(path);
  expect([status, headers.get("content-type")]).toEqual([200, "text/csv; charset=utf-8"]);
  const { csv } = await app.grpc(AIService).exportUsage({ userId: id }, admin);
  expect(csv).toBe(`${header}\r\n${line}\r\n`);
  expect((await account.get(path)).status).toBe(403);
  expect((await admin.get(`${path}&from=yesterday`)).body).toMatchObject({
    statusCode: 400,
    violations: [{ field: "from" }],
  });
});

test.runIf(process.env.TEST_FULL)(
  "GET /admin/usage.csv: rejects more than 50,000 rows, and omits none below",
  async () => {
    const { id } = await app.addUser();
    const add = (rows: number, daysAgo: number) =>
      app.sql(
        `insert into ai_usage (id, user_id, provider, model, outcome, created_at)
       select gen_random_uuid(), ?, 'provider-a', 'model ' || n, 'completed', ?::timestamptz - ?::int * interval '1 day'
       from generate_series(1, ?::int) as n`,
        [id, app.clock.now(), daysAgo, rows],
      );
    await add(50_000, 40);
    const from = new Date(app.clock.now().getTime() - 50 * 86_400_000).toISOString();
    const path = `/admin/usage.csv?userId=${id}&from=${from}`;
    const { text } = await admin.get(path);
    expect(text.split("\r\n")).toHaveLength(50_002);
    await add(1, 41);
    expect((await admin.get(path)).body).toMatchObject({
      statusCode: 400,
      violations: [
        { field: "from", message: "must be later: the table would have more than 50000 rows" },
      ],
    });
    await app.sql("delete from ai_usage where user_id = ?", [id]);
  },
  60_000,
);

test("GET /admin/overview: shows the cost of calls, and the number of calls without a price", async () => {
  const { user, post } = await app.signIn();
  const before = (await admin.get("/admin/overview")).body.aiCost;
  const billed = { fresh: 1_000, cached: 0, written: 0, writtenForHour: 0, output: 7 };
  await post("/ai/chat", conversationOf(caseOf(billed, 0), "provider-c"));
  await app.sql(
    `insert into ai_usage (id, user_id, provider, model, outcome, input_tokens, created_at)
     values (gen_random_uuid(), ?, 'provider-x', 'model-x', 'completed', 5, ?)`,
    [user.id, app.clock.now()],
  );
  const cost = truthOf(priceOf("provider-c"), billed);
  const costs = async () => (await admin.get("/admin/overview")).body.aiCost;
  await expect.poll(costs).toMatchObject({
    currency: "EUR",
    todayCost: moneyIn(billionthsIn(before?.todayCost ?? "0") + cost),
    totalCost: moneyIn(billionthsIn(before?.totalCost ?? "0") + cost),
    unpricedCalls: (before?.unpricedCalls ?? 0) + 1,
  });
  const aiCost = await costs();
  expect(aiCost.dailyCosts).toHaveLength(30);
  expect(aiCost.dailyCosts.at(-1)).toBe(aiCost.todayCost);
});

test("GET /user/export: contains the cost of each call", async () => {
  const { get, post } = await app.signIn();
  const billed = { fresh: 1_000, cached: 20, written: 30, writtenForHour: 0, output: 7 };
  await post("/ai/chat", conversationOf(caseOf(billed, 3)));
  await expect
    .poll(async () => (await get("/user/export")).body.usage)
    .toMatchObject([
      {
        ...{ inputTokens: 1_050, cachedInputTokens: 20, cacheWriteTokens: 30, reasoningTokens: 3 },
        ...{ attempts: 1, cost: moneyIn(truthOf(priceOf("provider-a"), billed)), currency: "EUR" },
      },
    ]);
});

test("gatehouse_ai_cost_total: counts the cost of a call", async () => {
  const { post } = await app.signIn();
  const billed = { fresh: 1, cached: 0, written: 0, writtenForHour: 0, output: 2_000_000 };
  const total = async () => {
    const sample = /gatehouse_ai_cost_total\{gen_ai_provider_name="anthropic",.*\} (\S+)/;
    return Number(sample.exec(await app.metrics())?.[1] ?? 0);
  };
  const before = await total();
  await post("/ai/chat", conversationOf(caseOf(billed, 0), "provider-b"));
  const cost = Number(moneyIn(truthOf(priceOf("provider-b"), billed)));
  await expect.poll(total).toBeGreaterThanOrEqual(before + cost - 0.000_001); // of a sum of doubles
});

describe("Models without a price", async () => {
  const unpriced = await startSuiteApp({
    env: { RATE_LIMITS: "off", AI_CATALOG: pricedCatalogue({}) },
  });

  test("have no cost in any reply or report", async () => {
    const root = await unpriced.signInAdmin();
    const account = await unpriced.signIn();
    const { post, get } = account;
    const request = {
      model: "model-a-1",
      messages: [{ role: "user", content: "case: billed 10,10,5,0,0,0" }],
    };
    const { body } = await post("/v1/chat/completions", request);
    expect(body.usage).toMatchObject({ prompt_tokens: 10 });
    expect(body.usage).not.toHaveProperty("cost");
    const line = { calls: 1, cachedInputTokens: 5, unpricedCalls: 1 };
    await expect.poll(async () => (await get("/user/usage")).body).toMatchObject([line]);
    const [usage] = (await get("/user/usage")).body;
    const { totals } = (await root.get("/admin/usage/sums")).body;
    expect(totals).toMatchObject({ calls: 1, unpricedCalls: 1, dailyCosts: [] });
    for (const reported of [usage, totals]) expect(reported).not.toHaveProperty("cost");
    expect((await root.get("/admin/overview")).body).not.toHaveProperty("aiCost");
  });
});
