import { beforeAll, describe, expect, test } from "vitest";
import {
  type BudgetForm,
  usageOf,
  usedBy,
  withBudget as withBudgetOf,
} from "../../support/ai/budgets.ts";
import { pricedCatalogue } from "../../support/ai/priced-catalogue.ts";
import { startSuiteApp } from "../../support/app.ts";
import { postJson } from "../../support/http/client.ts";
import { times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";

const app = await startSuiteApp({
  env: { AI_CATALOG: pricedCatalogue(), RATE_LIMITS: "off" },
});

/** A user with a budget a month. */
const withBudget = (form: BudgetForm) => withBudgetOf(app, form);

/** A foreign API, and the provider that has it. */
const APIS = [
  {
    path: "/v1/messages",
    provider: 1,
    field: "max_tokens",
    bodyOf: (content: unknown) => ({ model: "model-b-1", messages: [{ role: "user", content }] }),
    refused: { type: "error", error: { type: "rate_limit_error" } },
    file: {
      type: "document",
      source: { type: "base64", media_type: "application/pdf", data: "JVBERi0=" },
    },
  },
  {
    path: "/v1/responses",
    provider: 0,
    field: "max_output_tokens",
    bodyOf: (content: unknown) => ({
      ...{ model: "model-a-1", store: false },
      input: [{ role: "user", content }],
    }),
    refused: { error: { type: "insufficient_quota", code: "budget_exceeded" } },
    file: {
      ...{ type: "input_file", filename: "a.pdf" },
      file_data: "data:application/pdf;base64,JVBERi0=",
    },
  },
] as const;

beforeAll(async () => {
  const account = await withBudget({ limit: 10_000_000 });
  const [{ path, bodyOf }] = APIS;
  await until("every process to know that there are budgets", async () => {
    const request = bodyOf("case: plain");
    const answers = await Promise.all(times(8, () => account.post(path, request)));
    return answers.every(({ headers }) => headers.has("x-budget-limit"));
  });
});

describe.each(APIS)("POST $path under a budget", ({ path, provider, field, bodyOf, ...api }) => {
  const caseOf = (name: string, fields: object = {}) => ({
    ...bodyOf(`case: ${name} ${crypto.randomUUID()}`),
    ...{ [field]: 1_000 },
    ...fields,
  });
  const requests = () => app.providers[provider]?.requests ?? [];
  const lastBody = () => (requests().at(-1)?.body ?? {}) as Record<string, unknown>;

  test.each([false, true])(
    "is booked with the usage that the provider reports (stream: %s)",
    async (stream) => {
      const account = await withBudget({ unit: "cost", limit: 10 });
      const { status, headers } = await account.post(path, caseOf("calling", { stream }));
      expect([status, headers.get("x-budget-limit")]).toEqual([200, "10"]);
      expect(lastBody().stream ?? false).toBe(stream); // what is passed on keeps its form
      const used = await usedBy(account);
      expect(await usageOf(account)).toMatchObject({
        ...{ inputTokens: 40, outputTokens: 30, estimatedCalls: 0, cost: used },
      });
    },
  );

  test("is 429 in the format of the API if the budget is too small, with advice not to repeat it", async () => {
    const account = await withBudget({ limit: 0 });
    const before = requests().length;
    for (const stream of [false, true]) {
      const { status, body, headers } = await account.post(path, caseOf("plain", { stream }));
      expect([status, body]).toMatchObject([429, api.refused]);
      expect(headers.get("x-should-retry")).toBe("false");
      expect(Number(headers.get("retry-after"))).toBeGreaterThan(5);
    }
    expect(requests().length).toBe(before);
    expect(await usageOf(account)).toBeUndefined();
  });

  test("gets the rest of the budget as its maximum, and is refused below its own maximum", async () => {
    const account = await withBudget({ limit: 9_000 });
    const { status } = await account.post(path, caseOf("plain", { [field]: undefined }));
    expect(status).toBe(200);
    const granted = Number(lastBody()[field]);
    expect(granted).toBeGreaterThanOrEqual(256);
    expect(granted).toBeLessThan(9_000);
    await usedBy(account);
    const refused = await account.post(path, caseOf("plain", { [field]: 8_999 }));
    expect(refused.status).toBe(429);
    await account.post(path, caseOf("plain", { [field]: 300 }));
    expect(lastBody()[field]).toBe(300);
  });

  test("reserves the maximum tokens of a file, whatever its size", async () => {
    const account = await withBudget({ limit: 1_000_000 });
    const text = { type: path === "/v1/messages" ? "text" : "input_text", text: "case: plain" };
    const withFile = { ...bodyOf([api.file, text]), [field]: 100 };
    expect((await account.post(path, withFile)).status).toBe(429);
    expect((await account.post(path, { ...bodyOf([text]), [field]: 100 })).status).toBe(200);
  });

  test("of an abandoned stream is booked with an estimate, and releases the rest", async () => {
    const account = await withBudget({ limit: 100_000 });
    const leaving = new AbortController();
    const request = caseOf("silent-midway", { stream: true });
    const answer = await postJson(app.url + path, request, account.accessToken, leaving.signal);
    await answer.body?.getReader().read();
    leaving.abort();
    const used = Number(await usedBy(account));
    expect(used).toBeGreaterThan(0);
    expect(used).toBeLessThan(1_000);
    expect(await usageOf(account)).toMatchObject({ calls: 1, estimatedCalls: 1 });
  });

  test("of an abandoned complete reply is booked with all reserved output", async () => {
    const account = await withBudget({ limit: 100_000 });
    const leaving = new AbortController();
    const before = requests().length;
    const answer = postJson(app.url + path, caseOf("silent"), account.accessToken, leaving.signal);
    await until("the request to arrive", () => requests().length > before);
    leaving.abort();
    await expect(answer).rejects.toThrow();
    await usedBy(account);
    expect(await usageOf(account)).toMatchObject({ outputTokens: 1_000, estimatedCalls: 1 });
  });

  test.each([
    { how: "timed out", name: "timeout", whole: 504, stream: 504 },
    { how: "was reset", name: "reset-after-headers-once", whole: 500, stream: 200 },
  ])(
    "of a complete reply that $how is not sent again, because the reply may have been written",
    async ({ name, whole, stream }) => {
      const account = await withBudget({ limit: 100_000 });
      const before = requests().length;
      expect((await account.post(path, caseOf(name))).status).toBe(whole);
      expect(requests().length).toBe(before + 1);
      await usedBy(account);
      expect(await usageOf(account)).toMatchObject({ outputTokens: 1_000, estimatedCalls: 1 });
      expect((await account.post(path, caseOf(name, { stream: true }))).status).toBe(stream);
      expect(requests().length).toBe(before + 3);
    },
  );

  test("that fails before the input is read costs nothing", async () => {
    const account = await withBudget({ limit: 100_000 });
    expect((await account.post(path, caseOf("invalid"))).status).toBe(400);
    expect(await usedBy(account)).toBe("0");
  });

  test("does not exceed the budget among many concurrent calls", async () => {
    const account = await withBudget({ limit: 10_000 }); // of which a call holds half;
    const answers = await Promise.all(
      times(30, (i) => account.post(path, caseOf("calling", { stream: i % 2 === 0 }))),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 429]));
    const used = Number(await usedBy(account));
    const { inputTokens, outputTokens, estimatedCalls } = await usageOf(account);
    expect([used, estimatedCalls]).toEqual([inputTokens + outputTokens, 0]);
    expect(await app.metrics()).toMatch(/^gatehouse_budget_overshoot_total 0$/m);
  });
});

test("POST /v1/messages/count_tokens is free, and reserves nothing", async () => {
  const account = await withBudget({ limit: 0 });
  const body = APIS[0].bodyOf("Hello, how are you?");
  expect((await account.post("/v1/messages/count_tokens", body)).status).toBe(200);
});
