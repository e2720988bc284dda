import { beforeAll, describe, expect, test } from "vitest";
import { type BudgetForm, usedBy, withBudget as withBudgetOf } from "../../support/ai/budgets.ts";
import {
  failsWith,
  isSilent,
  MOODY_REPLY,
  resets,
  startMoodyProviders,
  works,
} from "../../support/ai/moody-providers.ts";
import { startSuiteApp } from "../../support/app.ts";
import { forSuite } from "../../support/suites.ts";
import { times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";

const PATH = "/v1/chat/completions";
const aliasOf = (name: string, ...models: string[]) => ({
  name,
  targets: models.map((model, i) => ({ provider: model, model, weight: i === 0 ? 1 : 0 })),
});
const bare = { overheadTokens: 0 };
const moody = await forSuite(
  startMoodyProviders(
    Object.fromEntries(
      ["costly", "cheap", "third", "unknown", "unheard"].map((name) => [name, `sk-${name}`]),
    ),
    [
      aliasOf("assistant", "costly", "cheap", "third"),
      aliasOf("mixed", "unknown", "cheap"),
      aliasOf("unpriced", "unknown", "unheard"),
    ],
    {
      // 10,000 and 40,000 nano-units per token
      costly: { ...bare, price: { input: 10, output: 40 } },
      cheap: { ...bare, outputTokens: 500, price: { input: 1, output: 4 } },
      third: { ...bare, price: { input: 1, output: 4 } },
    },
  ),
);
const app = await startSuiteApp({
  env: {
    ...moody.env,
    ...{ AI_FIRST_BYTE_TIMEOUT: "500ms", AI_RETRIES: "0", RATE_LIMITS: "off" },
  },
});
const overloaded = failsWith(503, { code: "overloaded" });

/** A user with a budget a month. */
const withBudget = (form: BudgetForm) => withBudgetOf(app, { unit: "cost", ...form });

const question = (model: string, fields: object = {}) => ({
  ...{ model, max_tokens: 100, messages: [{ role: "user", content: "Hello!" }] },
  ...fields,
});
const sentTo = (...names: string[]) => names.map((name) => moody.requestsOf(name).length);

beforeAll(async () => {
  const account = await withBudget({ limit: 1 });
  await until("every process to know that there are budgets", async () => {
    const answers = await Promise.all(times(8, () => account.post(PATH, question("cheap"))));
    return answers.every(({ headers }) => headers.has("x-budget-limit"));
  });
});

describe("A call of an alias under a budget", () => {
  test("is booked with the price of the model that replies", async () => {
    moody.set("costly", overloaded);
    const account = await withBudget({ limit: 1 });
    const { status, body, headers } = await account.post(PATH, question("assistant"));
    expect([status, headers.get("x-ai-model")]).toEqual([200, "cheap"]);
    expect(body.choices[0].message.content).toBe(MOODY_REPLY);
    expect(await usedBy(account)).toBe("0.000031"); // 11 * 1,000 + 5 * 4,000 nano-units
    expect(body.usage.cost).toBe("0.000031");
    const { body: usage } = await account.get("/user/usage");
    expect(usage).toMatchObject([{ provider: "cheap", model: "cheap", cost: "0.000031" }]);
  });

  test.each([
    ["timed out", isSilent],
    ["was reset before its first byte", resets],
  ])("books the input of an attempt that %s, at the price of its model", async (_how, mood) => {
    moody.set("costly", mood);
    const account = await withBudget({ limit: 1 });
    const { status, text } = await account.post(PATH, question("assistant", { stream: true }));
    expect([status, text.includes('"model":"cheap"')]).toEqual([200, true]);
    expect(await usedBy(account)).toBe("0.000141"); // 11 * 10,000 more
    const { body } = await account.get("/user/usage");
    expect(body).toMatchObject([{ inputTokens: 22, outputTokens: 5, estimatedCalls: 1 }]);
  });

  test.each([
    ["a time-out", isSilent, 504],
    ["a reset", resets, 500],
  ])(
    "continues only once after %s, because no more input is reserved",
    async (_what, mood, expected) => {
      for (const name of ["costly", "cheap"]) moody.set(name, mood);
      const account = await withBudget({ limit: 1 });
      const [before] = sentTo("third");
      const { status } = await account.post(PATH, question("assistant", { stream: true }));
      expect([status, ...sentTo("third")]).toEqual([expected, before]);
      expect(await usedBy(account)).toBe("0.000022"); // an estimate of 2 tokens for each
      for (const name of ["costly", "cheap"]) {
        moody.set(name, works);
        await account.post(PATH, question(name)); // otherwise its breaker would open
      }
    },
  );

  test("reserves the cost of its most expensive model", async () => {
    const account = await withBudget({ limit: "0.003" });
    const refused = await account.post(PATH, question("assistant")); // 100 * 40,000 nano-units
    expect([refused.status, refused.body.error.code]).toEqual([429, "budget_exceeded"]);
    expect((await account.post(PATH, question("cheap"))).status).toBe(200);
  });

  test("gets the rest of the budget as its maximum at each model, or the maximum of the model", async () => {
    moody.set("costly", overloaded);
    const account = await withBudget({ unit: "tokens", limit: 2_000 });
    const sent = sentTo("costly");
    const request = question("assistant", { max_tokens: undefined });
    expect((await account.post(PATH, request)).status).toBe(200);
    expect(sentTo("costly")).toEqual(sent.map((count) => count + 1));
    const mostOf = (name: string) => Number(moody.requestsOf(name).at(-1)?.body.max_tokens);
    expect(mostOf("costly")).toBeGreaterThan(1_900);
    expect(mostOf("costly")).toBeLessThan(2_000);
    expect(mostOf("cheap")).toBe(500);
  });

  test("is refused if the budget is below its own maximum, even if one of its models writes less", async () => {
    const account = await withBudget({ unit: "tokens", limit: 900 });
    const request = question("assistant", { max_tokens: 1_000 });
    expect((await account.post(PATH, request)).status).toBe(429);
    expect((await account.post(PATH, { ...request, model: "cheap" })).status).toBe(200);
  });

  test("skips models without a price under a budget of money", async () => {
    const [money, tokens] = [
      await withBudget({ limit: 1 }),
      await withBudget({ unit: "tokens", limit: 90_000 }),
    ];
    const sent = sentTo("unknown");
    for (let i = 0; i < 3; i++) {
      const { status, headers } = await money.post(PATH, question("mixed"));
      expect([status, headers.get("x-ai-model"), headers.get("x-budget-limit")]).toEqual([
        ...[200, "cheap", "1"],
      ]);
    }
    expect(sentTo("unknown")).toEqual(sent);
    expect(await usedBy(money)).toBe("0.000093");
    const { headers } = await tokens.post(PATH, question("mixed"));
    expect(headers.get("x-ai-model")).toBe("unknown");
  });

  test("is 403 MODEL_NOT_PRICED if no model has a price, and names the first", async () => {
    const account = await withBudget({ limit: 1 });
    const { status, body } = await account.post(PATH, question("unpriced"));
    expect([status, body.error.code]).toEqual([403, "model_not_priced"]);
    expect(body.error.message).toContain("The model unknown has no price");
    const other = await account.post(PATH, question("unheard"));
    expect(other.body.error.message).toContain("The model unheard has no price");
  });

  test("does not exceed the budget among many concurrent calls, whichever model replies", async () => {
    moody.set("costly", (request, response, raw) =>
      (Math.random() < 0.5 ? overloaded : works)(request, response, raw),
    );
    const account = await withBudget({ limit: "0.05" });
    const statuses = await Promise.all(
      times(60, async () => (await account.post(PATH, question("assistant"))).status),
    );
    expect(new Set(statuses)).toEqual(new Set([200, 429]));
    const used = await usedBy(account);
    const { body } = await account.get("/user/usage");
    const costs = (body as { cost: string }[]).map(({ cost }) => Number(cost));
    expect(Number(used)).toBeCloseTo(
      costs.reduce((sum, cost) => sum + cost, 0),
      9,
    );
    expect(Number(used)).toBeLessThanOrEqual(0.05);
    expect(await app.metrics()).toMatch(/^gatehouse_budget_overshoot_total 0$/m);
  });
});
