import { Code } from "@connectrpc/connect";
import { beforeAll, describe, expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { FailureSchema, Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { tokensIn } from "../../../scripts/simulators/dialect-encoder.ts";
import { budgetCatalogue } from "../../support/ai/budget-catalogue.ts";
import {
  type BudgetForm,
  setBudget as setBudgetOf,
  settledBudget,
  usageOf,
  withBudget as withBudgetOf,
} from "../../support/ai/budgets.ts";
import { startMeteredProvider } from "../../support/ai/metered-provider.ts";
import { createKey, createService } from "../../support/api-keys.ts";
import { startSuiteApp } from "../../support/app.ts";
import { bearer, postJson } from "../../support/http/client.ts";
import { refusal } from "../../support/http/responses.ts";
import { errorOf } from "../../support/http/stub-services.ts";
import { forSuite } from "../../support/suites.ts";
import { times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";

const provider = await forSuite(startMeteredProvider());
const app = await startSuiteApp({
  env: { ...provider.env, AI_CATALOG: budgetCatalogue(), RATE_LIMITS: "off" },
});

/** Deletes a budget that limits others too. */
const drop = async ({ id }: { id: string }) =>
  void (await (await app.signInAdmin()).delete(`/admin/budgets/${id}`));

type Form = Partial<BudgetForm>;
const setBudget = (form: BudgetForm) => setBudgetOf(app, form);
/** A user with a budget. */
const withBudget = (limit: BudgetForm["limit"], form: Form = {}) =>
  withBudgetOf(app, { limit, ...form });

const conversationOf = (content: string, more: object = {}) => ({
  ...{ provider: "provider-a", model: "model-a-1", messages: [{ role: "user", content }] },
  ...more,
});
const completionOf = (content: string, more: object = {}) => ({
  ...{ model: "model-a-1", messages: [{ role: "user", content }] },
  ...more,
});

beforeAll(async () => {
  const account = await withBudget(1_000_000);
  await until("every process to know that there are budgets", async () => {
    const request = conversationOf("5 tokens");
    const answers = await Promise.all(times(8, () => account.post("/ai/chat", request)));
    return answers.every(({ headers }) => headers.has("x-budget-limit"));
  });
});

describe("A call that exceeds its budget", () => {
  test.each(["/ai/chat", "/ai/stream"])("POST %s: is 429 BUDGET_EXCEEDED", async (path) => {
    const account = await withBudget(0);
    const { status, body, headers } = await account.post(path, conversationOf("5 tokens"));
    expect([status, body.code]).toEqual([429, "BUDGET_EXCEEDED"]);
    expect(body.message).toMatch(
      /^Your monthly budget of 0 tokens is used up until \d{4}-\d\d-01T00:00:00Z\.$/,
    );
    const wait = Number(headers.get("retry-after"));
    expect(wait).toBeGreaterThan(0);
    expect(wait).toBeLessThanOrEqual(31 * 86_400);
    expect([...["limit", "remaining"].map((name) => headers.get(`x-budget-${name}`))]).toEqual([
      "0",
      "0",
    ]);
    expect(headers.get("x-budget-reset")).toBe(headers.get("retry-after"));
  });

  test.each([false, true])(
    "POST /v1/chat/completions: 429 insufficient_quota, with advice not to repeat it (stream: %s)",
    async (stream) => {
      const account = await withBudget(0);
      const request = completionOf("5 tokens", { stream });
      const { status, body, headers } = await account.post("/v1/chat/completions", request);
      expect([status, body.error]).toMatchObject([
        429,
        { type: "insufficient_quota", code: "budget_exceeded", param: null },
      ]);
      expect(headers.get("x-should-retry")).toBe("false");
      expect(headers.get("x-budget-limit")).toBe("0");
    },
  );

  test("POST /v1/chat/completions: with an API key, is refused each time with the same answer", async () => {
    const { apiKey, key } = await createKey(await app.signIn());
    await setBudget({ scope: "key", subject: apiKey.id, limit: 0 });
    const answers = [];
    for (let call = 0; call < 5; call++) {
      const request = completionOf("5 tokens");
      const answer = await postJson(`${app.url}/v1/chat/completions`, request, key);
      const wait = Number(answer.headers.get("retry-after"));
      expect(Math.abs(wait - Number(answer.headers.get("x-budget-reset")))).toBeLessThanOrEqual(1);
      const names = ["x-should-retry", "x-budget-limit", "x-budget-remaining"];
      const headers = names.map((name) => answer.headers.get(name));
      answers.push({ status: answer.status, headers, body: await answer.json() });
    }
    const [first] = answers;
    expect(first).toMatchObject({ status: 429, headers: ["false", "0", "0"] });
    expect(answers).toEqual(times(5, () => first));
    expect((await app.httpClient().get("/v1/models", key)).status).toBe(200);
  });

  test("Chat, StreamChat, Complete: fail with RESOURCE_EXHAUSTED", async () => {
    const { headers } = await withBudget(0);
    const client = app.grpc(AIService);
    const read = async (stream: AsyncIterable<unknown>) => {
      for await (const _ of stream);
    };
    const { model, ...completion } = { model: "model-a-1" };
    const parts = [{ part: { case: "text" as const, value: "5 tokens" } }];
    const request = { ...completion, model, messages: [{ role: "user", parts }] };
    const calls = {
      Chat: () => client.chat(conversationOf("5 tokens"), { headers }),
      StreamChat: () => read(client.streamChat(conversationOf("5 tokens"), { headers })),
      Complete: () => read(client.complete(request, { headers })),
    };
    for (const [name, call] of Object.entries(calls)) {
      const error = await errorOf(call());
      expect([error.code, error.findDetails(FailureSchema)[0]?.reason], name).toEqual([
        Code.ResourceExhausted,
        Reason.BUDGET_EXCEEDED,
      ]);
      expect(error.metadata.get("x-budget-limit")).toBe("0");
    }
  });

  test("does not reach the provider, and records no usage", async () => {
    const account = await withBudget(0);
    const before = provider.requests.length;
    await account.post("/ai/chat", conversationOf("5 tokens"));
    expect(provider.requests.length).toBe(before);
    expect(await usageOf(account)).toBeUndefined();
  });

  test("says how much is left, if anything", async () => {
    const account = await withBudget("0.01", { unit: "cost", period: "day" });
    await account.post("/ai/chat", conversationOf("2000 tokens", { maxTokens: 2_000 })); // 0.008 USD
    await settledBudget(account);
    const request = conversationOf("900 tokens", { maxTokens: 900 });
    const { body, headers } = await account.post("/ai/chat", request);
    expect(body.message).toMatch(
      /^Your daily budget of 0\.01 USD is not enough for this call until \S+Z: the call may use more than what is left \(0\.0019\d+ USD\)\.$/,
    );
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(5);
  });

  test("says that waiting does not help if the call needs more than the whole budget", async () => {
    const account = await withBudget(300);
    const request = conversationOf("900 tokens", { maxTokens: 900 });
    const { status, body, headers } = await account.post("/ai/chat", request);
    expect([status, body.message]).toEqual([
      429,
      "Your monthly budget of 300 tokens is smaller than what this call may use. Please send less, or ask for a shorter reply.",
    ]);
    expect(headers.get("retry-after")).toBeNull();
  });
});

describe("A call under a budget", () => {
  test("is booked with the usage that the provider reports", async () => {
    const account = await withBudget("1", { unit: "cost" });
    const { status, headers } = await account.post("/ai/chat", conversationOf("40 tokens"));
    expect(status).toBe(200);
    const { inputTokens, outputTokens } = provider.metered.at(-1) ?? {};
    expect([inputTokens, outputTokens]).toEqual([2, 40]);
    expect(headers.get("x-budget-limit")).toBe("1");
    expect(Number(headers.get("x-budget-remaining"))).toBeLessThan(1);
    // 2 * 1,000 + 40 * 4,000 nano-units
    expect(await settledBudget(account)).toMatchObject({ used: "0.000162", limit: "1" });
    expect(await usageOf(account)).toMatchObject({ inputTokens: 2, outputTokens: 40 });
  });

  test("gets what the call before has not used, however soon it follows", async () => {
    const account = await withBudget(60_000);
    for (let i = 0; i < 5; i++)
      for (const stream of [false, true]) {
        const request = completionOf("40 tokens", { stream }); // holds all that is left
        expect((await account.post("/v1/chat/completions", request)).status).toBe(200);
      }
  });

  test("shows its caller what is left although the provider fails, on both ports", async () => {
    const account = await withBudget(900_000);
    const stream = true;
    for (const [path, request, status] of [
      ["/ai/chat", conversationOf("504"), 500],
      ["/ai/stream", conversationOf("504"), 200],
      ["/v1/chat/completions", completionOf("504"), 504],
      ["/v1/chat/completions", completionOf("504", { stream }), 504],
    ] as const) {
      const { headers, ...answer } = await account.post(path, request);
      expect([answer.status, headers.get("x-budget-limit")]).toEqual([status, "900000"]);
    }
    const { metadata } = await errorOf(
      app.grpc(AIService).chat(conversationOf("504"), { headers: account.headers }),
    );
    expect(metadata.get("x-budget-limit")).toBe("900000");
    expect(Number(metadata.get("x-budget-reset"))).toBeGreaterThan(0);
  });

  test("of tokens counts input and output", async () => {
    const account = await withBudget(10_000);
    await account.post("/ai/chat", conversationOf("40 tokens", { maxTokens: 100 }));
    expect(await settledBudget(account)).toMatchObject({ used: "42", unit: "tokens" });
  });

  test("gets the rest of the budget as its maximum, and ends with length", async () => {
    const account = await withBudget(400);
    const { status, body } = await account.post("/ai/chat", conversationOf("900 tokens"));
    expect([status, body.finishReason]).toEqual([200, "length"]);
    const granted = provider.requests.at(-1)?.max_completion_tokens ?? 0;
    expect(granted).toBeGreaterThanOrEqual(256);
    expect(granted).toBeLessThan(400);
    const { used } = await settledBudget(account);
    expect(Number(used)).toBe(granted + 2);
  });

  test("is refused if the budget is below its own maximum and its input", async () => {
    const account = await withBudget(400);
    const request = conversationOf("900 tokens", { maxTokens: 399 });
    expect(await account.post("/ai/chat", request)).toMatchObject(refusal(429, "BUDGET_EXCEEDED"));
  });

  test("is read as a stream, and returned as without a budget", async () => {
    const [limited, free] = [await withBudget(100_000), await app.signIn()];
    const request = conversationOf("40 tokens");
    const under = await limited.post("/ai/chat", request);
    expect(provider.requests.at(-1)?.stream).toBe(true);
    const without = await free.post("/ai/chat", request);
    expect(provider.requests.at(-1)?.stream).not.toBe(true);
    expect([under.status, under.text]).toEqual([without.status, without.text]);
  });

  test("that is abandoned is booked with an estimate, up to its reservation", async () => {
    const account = await withBudget(100_000);
    const leaving = new AbortController();
    const request = conversationOf("500 tokens, 5 ms each");
    const answer = await postJson(
      `${app.url}/ai/stream`,
      request,
      account.accessToken,
      leaving.signal,
    );
    await answer.body?.getReader().read();
    leaving.abort();
    const { used } = await settledBudget(account);
    expect(Number(used)).toBeGreaterThan(0);
    expect(Number(used)).toBeLessThan(500);
    expect(await usageOf(account)).toMatchObject({ calls: 1, estimatedCalls: 1 });
  });

  test("that is abandoned is booked with the estimated tokens of its images", async () => {
    const account = await withBudget(100_000);
    const leaving = new AbortController();
    const url = `data:image/png;base64,${"A".repeat(400)}`;
    const text = "500 tokens, 20 ms each";
    const request = {
      ...{ model: "model-a-1", stream: true, max_tokens: 600 },
      messages: [
        { role: "user", content: [{ type: "image_url", image_url: { url } }] },
        { role: "assistant", content: "OK" },
        { role: "user", content: text },
      ],
    };
    const { accessToken } = account;
    const address = `${app.url}/v1/chat/completions`;
    const answer = await postJson(address, request, accessToken, leaving.signal);
    await answer.body?.getReader().read();
    leaving.abort();
    await settledBudget(account);
    const { inputTokens } = await usageOf(account);
    expect(inputTokens).toBe(1_000 + tokensIn(`OK${text}`));
  });

  test("that fails before the input is read costs nothing", async () => {
    const account = await withBudget(100_000);
    const request = {
      provider: "provider-b",
      messages: [{ role: "user", content: "case: overloaded" }],
    };
    expect(await account.post("/ai/chat", request)).toMatchObject(refusal(500, "PROVIDER_ERROR"));
    expect(await settledBudget(account)).toMatchObject({ used: "0" });
  });

  test("without a price is refused only by a budget of money: 403 MODEL_NOT_PRICED", async () => {
    const [money, tokens] = [await withBudget("1", { unit: "cost" }), await withBudget(900_000)];
    const request = conversationOf("5 tokens", { model: "model-a-2" });
    const refused = await money.post("/ai/chat", request);
    expect(refused).toMatchObject(refusal(403, "MODEL_NOT_PRICED"));
    expect(refused.body.message).toContain("model-a-2");
    const formatted = completionOf("5 tokens", { model: "model-a-2" });
    expect(await money.post("/v1/chat/completions", formatted)).toMatchObject({
      status: 403,
      body: { error: { code: "model_not_priced", param: "model" } },
    });
    expect((await tokens.post("/ai/chat", request)).status).toBe(200);
    const free = conversationOf("5 tokens", { model: "model-a-3" });
    expect((await money.post("/ai/chat", free)).status).toBe(200);
    expect(await settledBudget(money)).toMatchObject({ used: "0" });
  });

  test("is refused while other calls hold the budget: 429 with Retry-After 5, without advice not to repeat it", async () => {
    const account = await withBudget(1_200);
    const leaving = new AbortController();
    const slow = completionOf("500 tokens, 20 ms each", { stream: true, max_tokens: 900 });
    const path = "/v1/chat/completions";
    const { accessToken } = account;
    const answer = await postJson(app.url + path, slow, accessToken, leaving.signal);
    await answer.body?.getReader().read();
    const refused = await account.post(path, completionOf("5 tokens"));
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "5"]);
    expect(refused.headers.get("x-should-retry")).toBeNull();
    expect(refused.body.error.message).toContain("calls in progress");
    leaving.abort();
    await settledBudget(account);
    await until("the call to pass", async () => {
      const { status } = await account.post(path, completionOf("5 tokens"));
      return status === 200;
    });
  });

  test("does not exceed the budget among many concurrent calls", async () => {
    const account = await withBudget(20_000);
    const answers = await Promise.all(
      times(60, (i) =>
        account.post("/ai/chat", conversationOf(`${i} tokens, 10 ms each`, { maxTokens: 1_000 })),
      ),
    );
    const statuses = answers.map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set([200, 429]));
    const { used } = await settledBudget(account);
    const usage = await usageOf(account);
    expect(Number(used)).toBe(usage.inputTokens + usage.outputTokens);
    expect(Number(used)).toBeLessThanOrEqual(20_000);
    expect(await app.metrics()).toMatch(/^gatehouse_budget_overshoot_total 0$/m);
  });
});

describe("A budget", () => {
  test("of a role limits each user individually, and is replaced by the budget of a user", async () => {
    const budget = await setBudget({ scope: "role", subject: "user", limit: 1_000 });
    const accounts = await Promise.all(times(3, () => app.signIn()));
    await setBudget({ subject: accounts[2]?.user.id as string, limit: 0 });
    const request = conversationOf("600 tokens", { maxTokens: 700 });
    const statuses = async () =>
      Promise.all(accounts.map(async ({ post }) => (await post("/ai/chat", request)).status));
    expect(await statuses()).toEqual([200, 200, 429]);
    for (const account of accounts.slice(0, 2)) await settledBudget(account);
    expect(await statuses()).toEqual([429, 429, 429]);
    await drop(budget);
  });

  test("of an API key limits only the key, and is listed with its name", async () => {
    const account = await app.signIn();
    const [limited, other] = [await createKey(account), await createKey(account)];
    await setBudget({ scope: "key", subject: limited.apiKey.id, limit: 0 });
    const request = conversationOf("5 tokens");
    const statusOf = async (token: string) =>
      (await app.httpClient().post("/ai/chat", request, token)).status;
    expect(await statusOf(limited.key)).toBe(429);
    expect([await statusOf(other.key), await statusOf(account.accessToken)]).toEqual([200, 200]);
    const { body } = await account.get("/user/budgets");
    expect(body).toMatchObject([{ scope: "key", subject: limited.apiKey.id, keyName: "CI" }]);
  });

  test("of a service account limits all its keys", async () => {
    const service = await createService(app);
    await setBudget({ subject: service.id, limit: 0 });
    const answer = await app.httpClient().post("/ai/chat", conversationOf("hi"), service.key);
    expect(answer).toMatchObject(refusal(429, "BUDGET_EXCEEDED"));
  });

  test("of the deployment limits all calls, and users do not see its figures", async () => {
    const other = await withBudget(900_000);
    const budget = await setBudget({ scope: "deployment", limit: 0 });
    const account = await app.signIn();
    const ofOther = await other.post("/ai/chat", conversationOf("hi"));
    expect([ofOther.status, ofOther.headers.get("x-budget-limit")]).toEqual([429, "900000"]);
    const { status, body, headers } = await account.post("/ai/chat", conversationOf("hi"));
    await drop(budget);
    expect([status, body.code]).toEqual([429, "BUDGET_EXCEEDED"]);
    expect(body.message).toMatch(/^The monthly budget of this service is used up until \S+Z\.$/);
    expect(headers.get("x-budget-limit")).toBeNull();
    expect((await account.get("/user/budgets")).body).toEqual([]);
    await until("calls to pass", async () => {
      const { status } = await account.post("/ai/chat", conversationOf("5 tokens"));
      return status === 200;
    });
  });

  test("counts an impersonated call towards the administrator", async () => {
    const [admin, account] = [await app.signInAdmin(), await withBudget(0)];
    const { body } = await admin.post(`/admin/impersonate/${account.user.id}`, {
      reason: "a question",
    });
    const answer = await app
      .httpClient()
      .post("/ai/chat", conversationOf("5 tokens"), body.accessToken);
    expect(answer.status).toBe(200);
    expect(await settledBudget(account)).toMatchObject({ used: "0" });
  });

  test("that is raised or lowered applies from the next call on", async () => {
    const account = await withBudget(10_000);
    const { id: subject } = account.user;
    const status = async () => (await account.post("/ai/chat", conversationOf("5 tokens"))).status;
    expect(await status()).toBe(200);
    await setBudget({ subject, limit: 1 });
    expect(await status()).toBe(429);
    await setBudget({ subject, limit: 10_000 });
    await until("the refusal to be forgotten", async () => (await status()) === 200, 2_000);
  });

  test("sends one e-mail at its threshold and one when it is used up, and records the latter", async () => {
    const account = await withBudget("0.01", { unit: "cost" });
    const { email, id: user } = account.user;
    await account.post("/ai/chat", conversationOf("2100 tokens", { maxTokens: 2_200 })); // 0.0084 USD
    const { text } = await app.mail.emailTo(email, /almost used up/);
    expect(text).toContain("0.01 USD a month");
    for (let i = 0; i < 3; i++)
      await account.post("/ai/chat", conversationOf("900 tokens", { maxTokens: 900 }));
    await app.mail.emailTo(email, /is used up/);
    const mails = await app.mail.emailsTo(email);
    const subjects = mails.map(({ subject }) => subject).filter((one) => one?.includes("budget"));
    expect(subjects).toHaveLength(2);
    const events = await app.sql(
      "select user_id, details->>'limit' as limit from audit_events where event = 'user.budget_exceeded' and user_id = ?",
      [user],
    );
    expect(events).toEqual([{ user_id: user, limit: "0.01" }]);
  });

  test("books a call of a crashed process with its reservation, and nothing that comes later", async () => {
    const account = await withBudget(100_000);
    const leaving = new AbortController();
    const slow = conversationOf("400 tokens, 20 ms each", { maxTokens: 1_000 });
    const answer = await postJson(
      `${app.url}/ai/stream`,
      slow,
      account.accessToken,
      leaving.signal,
    );
    await answer.body?.getReader().read();
    const ofUser = [account.user.id];
    await app.sql(
      "update ai_usage set created_at = created_at - interval '2 hours' where user_id = ?",
      ofUser,
    );
    app.clock.advance("61m"); // the job then searches further back than its last run
    const outcome = async () => {
      const rows = await app.sql<{ outcome: string }>(
        "select outcome from ai_usage where user_id = ?",
        ofUser,
      );
      return rows[0]?.outcome;
    };
    await until("the call to be lost", async () => (await outcome()) === "lost");
    const later = await app.signIn(account.user); // the access token has expired
    const { used } = await settledBudget(later);
    expect(Number(used)).toBeGreaterThan(1_000);
    leaving.abort();
    await later.get("/user/usage"); // writes what is known
    expect([await outcome(), (await settledBudget(later)).used]).toEqual(["lost", used]);
  });

  test("is part of the export, and is deleted with the account", async () => {
    const account = await withBudget("2.5", { unit: "cost" });
    await account.post("/ai/chat", conversationOf("40 tokens"));
    await settledBudget(account);
    const { body } = await account.get("/user/export");
    expect(body.budgets).toMatchObject([{ scope: "user", limit: "2.5", used: "0.000162" }]);
    const admin = await app.signInAdmin();
    await admin.delete(`/admin/users/${account.user.id}`);
    const rows = await app.sql(
      "select (select count(*)::int from budgets where subject = ?) as budgets, (select count(*)::int from budget_counters where subject = ?) as counters",
      [account.user.id, account.user.id],
    );
    expect(rows).toEqual([{ budgets: 0, counters: 0 }]);
  });
});

describe("A call under a budget whose provider is slow", async () => {
  const slow = await startSuiteApp({
    env: {
      ...{ ...provider.env, AI_CATALOG: budgetCatalogue(), RATE_LIMITS: "off" },
      AI_IDLE_TIMEOUT: "300ms",
    },
  });
  const limitedAccount = async () => {
    const [admin, account] = [await slow.signInAdmin(), await slow.signIn()];
    const budget = { scope: "user", subject: account.user.id, unit: "tokens", period: "month" };
    await admin.put("/admin/budgets", { ...budget, limit: 1_000_000 });
    return account;
  };

  test("a complete reply may be silent for as long as without a budget", async () => {
    const account = await limitedAccount();
    const { status, body } = await account.post(
      "/ai/chat",
      conversationOf("2 tokens, 700 ms each"),
    );
    expect([status, body.content]).toEqual([200, "abc abc "]);
    const streamed = await account.post("/ai/stream", conversationOf("2 tokens, 700 ms each"));
    expect(streamed.text).toContain("timed out");
  });

  test("one attempt that timed out is repeated, and the input of both is booked", async () => {
    const account = await limitedAccount();
    const before = provider.requests.length;
    const answer = await account.post("/ai/chat", conversationOf("504"));
    expect(answer).toMatchObject(refusal(500, "PROVIDER_ERROR"));
    expect(provider.requests.length - before).toBe(2);
    expect(await settledBudget(account)).toMatchObject({ used: "2" }); // an estimate of one token each
  });
});

test("GET /user/budgets: is refused with an API key", async () => {
  const { key } = await createKey(await app.signIn());
  const answer = await app.httpClient().send("GET", "/user/budgets", undefined, bearer(key));
  expect(answer).toMatchObject(refusal(403, "KEY_NOT_ALLOWED"));
});
