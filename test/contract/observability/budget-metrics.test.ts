import { beforeAll, describe, expect, test } from "vitest";
import { budgetCatalogue } from "../../support/ai/budget-catalogue.ts";
import { setBudget, settledBudget, withBudget } from "../../support/ai/budgets.ts";
import { startMeteredProvider } from "../../support/ai/metered-provider.ts";
import { startSuiteApp } from "../../support/app.ts";
import { forSuite } from "../../support/suites.ts";
import { times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";

const provider = await forSuite(startMeteredProvider());
const app = await startSuiteApp({
  env: { ...provider.env, AI_CATALOG: budgetCatalogue(), RATE_LIMITS: "off" },
});
const conversationOf = (content: string, maxTokens = 100) => ({
  ...{ provider: "provider-a", model: "model-a-1", maxTokens },
  messages: [{ role: "user", content }],
});

/** The sum of a metric over all processes, of the samples with these labels. */
async function sumOf(name: string, labels = ""): Promise<number> {
  const samples = (await app.metrics()).split("\n").filter((line) => line.startsWith(name));
  return samples
    .filter((line) => line.includes(labels))
    .reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

beforeAll(async () => {
  const account = await withBudget(app, { limit: 1_000_000 });
  await until("every process to know that there are budgets", async () => {
    const answers = await Promise.all(
      times(8, () => account.post("/ai/chat", conversationOf("5 tokens"))),
    );
    return answers.every(({ headers }) => headers.has("x-budget-limit"));
  });
});

describe("Budget metrics", () => {
  test("gatehouse_budget_used_ratio: shows the used share of each budget of the deployment", async () => {
    const account = await withBudget(app, { limit: 1_000_000 });
    const forms = [
      { scope: "deployment", unit: "tokens", period: "month", limit: 1_000 },
      { scope: "deployment", unit: "cost", period: "day", limit: "0.001" },
    ];
    const budgets = await Promise.all(forms.map((form) => setBudget(app, form)));
    expect((await account.post("/ai/chat", conversationOf("98 tokens"))).status).toBe(200);
    await settledBudget(account);
    const admin = await app.signInAdmin();
    const ratios = [
      ...(await app.metrics()).matchAll(/^gatehouse_budget_used_ratio\{(.*)\} (.*)$/gm),
    ];
    expect(new Set(ratios.map(([, label, ratio]) => `${label} ${ratio}`))).toEqual(
      // 2 + 98 tokens, and 2 * 1,000 + 98 * 4,000 nano-units
      new Set(['budget="tokens_month" 0.1', 'budget="cost_day" 0.394']),
    );
    for (const { id } of budgets) await admin.delete(`/admin/budgets/${id}`);
  });

  test("gatehouse_budget_refusals_total, gatehouse_budget_reserve_seconds: count refusals by scope, and every reservation", async () => {
    const refusals = () => sumOf("gatehouse_budget_refusals_total", 'scope="user"');
    const reservations = () => sumOf("gatehouse_budget_reserve_seconds_count");
    const before = [await refusals(), await reservations()] as const;
    const account = await withBudget(app, { limit: 0 });
    for (let i = 0; i < 5; i++)
      expect((await account.post("/ai/chat", conversationOf("5 tokens"))).status).toBe(429);
    expect((await refusals()) - before[0]).toBe(5);
    expect((await reservations()) - before[1]).toBeGreaterThan(0);
    const roomy = await withBudget(app, { limit: 10_000 });
    const asked = await reservations();
    expect((await roomy.post("/ai/chat", conversationOf("5 tokens"))).status).toBe(200);
    expect((await reservations()) - asked).toBe(1);
  });

  test("contain no user, key or model name chosen by a caller", async () => {
    const account = await withBudget(app, { limit: 0 });
    await account.post("/ai/chat", conversationOf("5 tokens"));
    const own = (await app.metrics()).split("\n").filter((line) => line.includes("budget"));
    expect(own.join("\n")).not.toContain(account.user.id);
  });
});

describe("A budget of the deployment", () => {
  test("that is nearly and then completely used up is reported to each administrator once", async () => {
    const admins = [await app.signInAdmin(), await app.signInAdmin()];
    const account = await withBudget(app, { limit: 1_000_000 });
    const budget = await setBudget(app, { scope: "deployment", period: "day", limit: 1_000 });
    await account.post("/ai/chat", conversationOf("850 tokens", 900));
    await settledBudget(account);
    for (const { user } of admins) await app.mail.emailTo(user.email, /almost used up/);
    for (let i = 0; i < 3; i++) {
      const { status } = await account.post("/ai/chat", conversationOf("500 tokens", 500));
      expect(status).toBe(429);
    }
    for (const { user } of admins) {
      await app.mail.emailTo(user.email, /is used up/);
      const mails = await app.mail.emailsTo(user.email);
      const subjects = mails.map(({ subject }) => subject).filter((one) => one?.includes("budget"));
      expect(subjects).toHaveLength(2);
    }
    expect(await app.mail.emailsTo(account.user.email)).not.toContainEqual(
      expect.objectContaining({ subject: expect.stringContaining("budget") }),
    );
    const [own] = admins;
    await own?.delete(`/admin/budgets/${budget.id}`);
  });
});
