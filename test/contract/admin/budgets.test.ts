import { Code, ConnectError } from "@connectrpc/connect";
import { v7 as uuid } from "uuid";
import { describe, expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { budgetCatalogue } from "../../support/ai/budget-catalogue.ts";
import { startMeteredProvider } from "../../support/ai/metered-provider.ts";
import { createKey } from "../../support/api-keys.ts";
import { startSuiteApp } from "../../support/app.ts";
import { invalid, refusal, TEXT, TIME } from "../../support/http/responses.ts";
import { forSuite } from "../../support/suites.ts";

const provider = await forSuite(startMeteredProvider());
const app = await startSuiteApp({
  env: {
    ...{ ...provider.env, AI_CATALOG: budgetCatalogue(), RATE_LIMITS: "off" },
    BUDGET_TIME_ZONE: "Europe/Berlin",
  },
});

const ofUser = (subject: string, more: object = {}) => ({
  ...{ scope: "user", subject, unit: "cost", period: "month", limit: "20" },
  ...more,
});
const auditOf = (event: string, userId: string | null) =>
  app.sql<{ details: object }>(
    "select details from audit_events where event = ? and user_id is not distinct from ? order by id",
    [event, userId],
  );

describe("PUT /admin/budgets", () => {
  test("creates a budget, and updates the budget with the same scope, subject, unit and period", async () => {
    const [admin, { user }] = [await app.signInAdmin(), await app.signIn()];
    const { status, body } = await admin.put("/admin/budgets", ofUser(user.id));
    expect([status, body.budget]).toEqual([
      200,
      {
        ...{ id: TEXT, scope: "user", subject: user.id, unit: "cost", currency: "USD" },
        ...{ period: "month", limit: "20", alertPercent: 80, used: "0", reserved: "0" },
        ...{ startedAt: TIME, resetsAt: TIME },
        user: { id: user.id, name: user.name, email: user.email },
      },
    ]);
    const changed = await admin.put(
      "/admin/budgets",
      ofUser(user.id.toUpperCase(), { limit: 0.5, alertPercent: 90 }),
    );
    expect(changed.body.budget).toMatchObject({
      ...{ id: body.budget.id, limit: "0.5", alertPercent: 90 },
    });
    const kept = await admin.put("/admin/budgets", ofUser(user.id, { limit: "1" }));
    expect(kept.body.budget).toMatchObject({ id: body.budget.id, alertPercent: 90 });
    const other = await admin.put(
      "/admin/budgets",
      ofUser(user.id, { unit: "tokens", limit: 1_000 }),
    );
    expect(other.body.budget).toMatchObject({ limit: "1000", unit: "tokens" });
    expect(other.body.budget).not.toHaveProperty("currency");
    expect(other.body.budget.id).not.toBe(body.budget.id);
    const events = await auditOf("admin.budget_set", user.id);
    expect(events.map(({ details }) => details)).toMatchObject([
      { scope: "user", limit: "20" },
      { limit: "0.5", limitBefore: "20", alertPercent: 90 },
      { limit: "1" },
      { unit: "tokens", limit: "1000" },
    ]);
  });

  test("days and months begin at midnight in BUDGET_TIME_ZONE", async () => {
    const [admin, { user }] = [await app.signInAdmin(), await app.signIn()];
    for (const period of ["day", "month"]) {
      const { body } = await admin.put("/admin/budgets", ofUser(user.id, { period }));
      for (const time of [body.budget.startedAt, body.budget.resetsAt]) {
        const local = new Date(time).toLocaleString("sv", { timeZone: "Europe/Berlin" });
        expect(local).toMatch(period === "day" ? / 00:00:00$/ : /-01 00:00:00$/);
      }
    }
  });

  test("fromUsage counts completed calls", async () => {
    const [admin, account] = [await app.signInAdmin(), await app.signIn()];
    const request = {
      ...{ provider: "provider-a", model: "model-a-1" },
      messages: [{ role: "user", content: "40 tokens" }],
    };
    await account.post("/ai/chat", request);
    await account.post("/ai/chat", request);
    const { id } = account.user;
    const tokens = { unit: "tokens", limit: 1_000 };
    const { body: without } = await admin.put("/admin/budgets", ofUser(id, tokens));
    expect(without.budget.used).toBe("0");
    const { body } = await admin.put("/admin/budgets", ofUser(id, { ...tokens, fromUsage: true }));
    expect(body.budget.used).toBe("84");
    const { body: cost } = await admin.put("/admin/budgets", ofUser(id, { fromUsage: true }));
    expect(cost.budget.used).toBe("0.000324");
  });

  test("is 400 for an invalid budget, on both ports", async () => {
    const [admin, { user }] = [await app.signInAdmin(), await app.signIn()];
    const attempts: [object, string][] = [
      [{ scope: "team" }, "scope"],
      [{ scope: "deployment" }, "subject"],
      [{ subject: undefined }, "subject"],
      [{ subject: "ann" }, "subject"],
      [{ scope: "role", subject: "guest" }, "subject"],
      [{ unit: "calls" }, "unit"],
      [{ period: "year" }, "period"],
      [{ limit: "-1" }, "limit"],
      [{ limit: "1e3" }, "limit"],
      [{ limit: 1e21 }, "limit"],
      [{ limit: "0.0000000001" }, "limit"],
      [{ limit: "1000000.000000001" }, "limit"],
      [{ unit: "tokens", limit: "1.5" }, "limit"],
      [{ limit: true }, "limit"],
      [{ alertPercent: 0 }, "alertPercent"],
      [{ alertPercent: 101 }, "alertPercent"],
    ];
    for (const [change, field] of attempts) {
      const form = ofUser(user.id, change);
      expect(await admin.put("/admin/budgets", form), JSON.stringify(change)).toMatchObject(
        invalid(field),
      );
      if (typeof form.limit !== "string") continue;
      const call = app.grpc(AIService).setBudget(form, { headers: admin.headers });
      const thrown = ConnectError.from(await call.catch((error) => error));
      expect(thrown.code, JSON.stringify(change)).toBe(Code.InvalidArgument);
    }
    expect((await admin.get(`/admin/budgets?userId=${user.id}`)).body.items).toEqual([]);
  });

  test("is 404 for an unknown user or API key", async () => {
    const admin = await app.signInAdmin();
    for (const scope of ["user", "key"]) {
      const answer = await admin.put("/admin/budgets", ofUser(uuid(), { scope }));
      expect(answer).toMatchObject(refusal(404, "NOT_FOUND"));
    }
  });
});

describe("GET /admin/budgets", () => {
  test("lists budgets by scope and by user, newest first; budgets of a role show the usage of that user", async () => {
    const [admin, account] = [await app.signInAdmin(), await app.signIn()];
    const { id } = account.user;
    const { apiKey } = await createKey(account);
    const set = async (form: object) =>
      (await admin.put("/admin/budgets", ofUser(id, form))).body.budget.id as string;
    const deployment = await set({ scope: "deployment", subject: undefined });
    const role = await set({ scope: "role", subject: "user", period: "day" });
    const replaced = await set({ scope: "role", subject: "user" });
    const own = await set({});
    const key = await set({ scope: "key", subject: apiKey.id });
    type Item = { id: string; used?: string; keyName?: string; user?: { id: string } };
    const list = async (query: string) =>
      (await admin.get(`/admin/budgets?${query}`)).body.items as Item[];
    expect((await list(`userId=${id}`)).map((item) => item.id)).toEqual([key, own, role]);
    expect((await list("scope=role")).map((item) => item.id)).toEqual([replaced, role]);
    expect((await list("scope=deployment")).map((item) => item.id)).toEqual([deployment]);
    expect((await list(`userId=${id}&scope=key`))[0]).toMatchObject({
      ...{ keyName: "CI", user: { id } },
    });
    await account.post("/ai/chat", {
      ...{ provider: "provider-a", messages: [{ role: "user", content: "10 tokens" }] },
    });
    await account.get("/user/usage"); // writes what is known
    const [ofRole] = (await list(`userId=${id}&scope=role`)) as [Item];
    expect(ofRole.used).toBe("0.000042");
    expect((await list("scope=role"))[1]).not.toHaveProperty("used");
    const { body } = await admin.get("/admin/budgets?limit=2");
    expect(body.items.map((item: Item) => item.id)).toEqual([key, own]);
    const next = await admin.get(`/admin/budgets?limit=2&cursor=${body.nextCursor}`);
    expect(next.body.items.map((item: Item) => item.id)).toEqual([replaced, role]);
    for (const each of [deployment, role, replaced]) await admin.delete(`/admin/budgets/${each}`);
  });
});

describe("POST /admin/budgets/:id/adjust", () => {
  test("replaces the used amount, and records the reason", async () => {
    const [admin, { user }] = [await app.signInAdmin(), await app.signIn()];
    const { body } = await admin.put("/admin/budgets", ofUser(user.id));
    const path = `/admin/budgets/${body.budget.id}/adjust`;
    const adjusted = await admin.post(path, { used: 3.5, reason: "a crash" });
    expect(adjusted.body.budget).toMatchObject({ used: "3.5", limit: "20" });
    await admin.post(path, { used: "1", reason: "a bill" });
    const events = await auditOf("admin.budget_adjusted", user.id);
    expect(events.map(({ details }) => details)).toMatchObject([
      { used: "3.5", usedBefore: "0", reason: "a crash" },
      { used: "1", usedBefore: "3.5", reason: "a bill" },
    ]);
  });

  test("requires a user for a budget of a role, and rejects one for other budgets", async () => {
    const [admin, { user }] = [await app.signInAdmin(), await app.signIn()];
    const ofRole = ofUser("user", { scope: "role" });
    const role = (await admin.put("/admin/budgets", ofRole)).body.budget.id;
    const own = (await admin.put("/admin/budgets", ofUser(user.id, { period: "day" }))).body.budget;
    const form = { used: "2", reason: "a crash" };
    const adjust = (id: string, more: object = {}) =>
      admin.post(`/admin/budgets/${id}/adjust`, { ...form, ...more });
    expect(await adjust(role)).toMatchObject(invalid("subject"));
    expect(await adjust(own.id, { subject: user.id })).toMatchObject(invalid("subject"));
    expect(await adjust(role, { subject: uuid() })).toMatchObject(refusal(404, "NOT_FOUND"));
    expect((await adjust(role, { subject: user.id })).body.budget).toMatchObject({ used: "2" });
    expect(await adjust(own.id, { used: "many" })).toMatchObject(invalid("used"));
    expect(await adjust(own.id, { reason: "" })).toMatchObject(invalid("reason"));
    expect(await adjust(uuid())).toMatchObject(refusal(404, "NOT_FOUND"));
    await admin.delete(`/admin/budgets/${role}`);
  });
});

describe("DELETE /admin/budgets/:id", () => {
  test("deletes a budget with its counters, once", async () => {
    const [admin, { user }] = [await app.signInAdmin(), await app.signIn()];
    const { body } = await admin.put("/admin/budgets", ofUser(user.id));
    const path = `/admin/budgets/${body.budget.id}`;
    await admin.post(`${path}/adjust`, { used: "3.5", reason: "a crash" });
    expect(await admin.delete(path)).toMatchObject({ status: 200, body: { message: TEXT } });
    expect(await admin.delete(path)).toMatchObject(refusal(404, "NOT_FOUND"));
    const [counters] = await app.sql(
      "select count(*)::int as counters from budget_counters where subject = ?",
      [user.id],
    );
    expect(counters).toEqual({ counters: 0 });
    expect(await auditOf("admin.budget_deleted", user.id)).toHaveLength(1);
  });
});

test("/admin/budgets: is for administrators only", async () => {
  const { get, put, post, delete: remove, user } = await app.signIn();
  for (const answer of [
    await get("/admin/budgets"),
    await put("/admin/budgets", ofUser(user.id)),
    await post(`/admin/budgets/${uuid()}/adjust`, { used: "1", reason: "x" }),
    await remove(`/admin/budgets/${uuid()}`),
  ])
    expect(answer).toMatchObject(refusal(403, "FORBIDDEN"));
});
