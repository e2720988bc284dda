import { beforeAll, describe, expect, test } from "vitest";
import type { SignedIn } from "../../support/accounts.ts";
import {
  failsWith,
  isSilent,
  MOODY_REPLY,
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

type Form = { unit?: string; limit: string | number };

/** A user with a budget a month. */
async function withBudget({ unit = "cost", limit }: Form): Promise<SignedIn> {
  const account = await app.signIn();
  const admin = await app.signInAdmin();
  const form = { scope: "user", subject: account.user.id, period: "month", unit, limit };
  expect((await admin.put("/admin/budgets", form)).status).toBe(200);
  return account;
}

/** What the caller's budget has used, once every call of the caller has been booked. */
const usedBy = ({ get }: SignedIn): Promise<string> =>
  until("all calls to be booked", async () => {
    const { body } = await get("/user/budgets");
    return body[0]?.reserved === "0" ? (body[0].used as string) : undefined;
  });

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

  test("that timed out is booked with its input at the price of the model that had it", async () => {
    moody.set("costly", isSilent);
    const account = await withBudget({ limit: 1 });
    const { status, text } = await account.post(PATH, question("assistant", { stream: true }));
    expect([status, text.includes('"model":"cheap"')]).toEqual([200, true]);
    expect(await usedBy(account)).toBe("0.000141"); // 11 * 10,000 more
    const { body } = await account.get("/user/usage");
    expect(body).toMatchObject([{ inputTokens: 22, outputTokens: 5, estimatedCalls: 1 }]);
  });

  test("goes on once after a time-out, since no more input is held", async () => {
    for (const name of ["costly", "cheap"]) moody.set(name, isSilent);
    const account = await withBudget({ limit: 1 });
    const [before] = sentTo("third");
    const { status } = await account.post(PATH, question("assistant", { stream: true }));
    expect([status, ...sentTo("third")]).toEqual([504, before]);
    expect(Number(await usedBy(account))).toBeGreaterThan(0);
    moody.set("cheap", works);
  });

  test("holds what the most expensive of its models may cost", async () => {
    const account = await withBudget({ limit: "0.003" });
    const refused = await account.post(PATH, question("assistant")); // 100 * 40,000 nano-units
    expect([refused.status, refused.body.error.code]).toEqual([429, "budget_exceeded"]);
    expect((await account.post(PATH, question("cheap"))).status).toBe(200);
  });

  test("gets what is left as its maximum at each model, or what the model can", async () => {
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

  test("is refused below its own maximum, although one of its models writes less", async () => {
    const account = await withBudget({ unit: "tokens", limit: 900 });
    const request = question("assistant", { max_tokens: 1_000 });
    expect((await account.post(PATH, request)).status).toBe(429);
    expect((await account.post(PATH, { ...request, model: "cheap" })).status).toBe(200);
  });

  test("skips models without a price if the budget is of money", async () => {
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

  test("is 403 MODEL_NOT_PRICED if none has a price, and names the first", async () => {
    const account = await withBudget({ limit: 1 });
    const { status, body } = await account.post(PATH, question("unpriced"));
    expect([status, body.error.code]).toEqual([403, "model_not_priced"]);
    expect(body.error.message).toContain("The model unknown has no price");
    const other = await account.post(PATH, question("unheard"));
    expect(other.body.error.message).toContain("The model unheard has no price");
  });

  test("among many at once exceeds nothing, wherever it goes", async () => {
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
