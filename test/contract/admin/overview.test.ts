import { Code } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { AdminService } from "../../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { freshEmail, newAccount, WRONG_PASSWORD } from "../../support/accounts.ts";
import { conversationOf } from "../../support/ai/calls.ts";
import { startSuiteApp } from "../../support/app.ts";
import { invalid, TIME } from "../../support/http/responses.ts";

const app = await startSuiteApp();
const admin = await app.signInAdmin();
const DAY_MS = 86_400_000;
const overview = async () => (await admin.get("/admin/overview")).body;
const dayOf = (daysAgo: number) =>
  new Date(app.clock.now().getTime() - daysAgo * DAY_MS).toISOString().slice(0, 10);
const atDay = (daysAgo: number) => `${dayOf(daysAgo)}T12:00:00Z`;

/** Stores a call of a provider, at noon of a day or now. */
const storeCall = (userId: string, provider: string, outcome: string, at: string | Date) =>
  app.sql(
    `insert into ai_usage (id, user_id, provider, model, outcome, input_tokens, output_tokens, latency_ms, created_at)
     values (gen_random_uuid(), ?, ?, ?, ?, 7, 3, 120, ?::timestamptz)`,
    [userId, provider, `${provider}-1`, outcome, at],
  );

/** Waits until all events are sealed: active users are counted then. */
const sealed = () => expect.poll(() => app.sql("select 1 from audit_unsealed limit 1")).toEqual([]);

test("GET /admin/overview: counts sign-ins, registrations and active users of today", async () => {
  await sealed();
  const before = await overview();
  const user = await app.addUser();
  await app.httpClient().post("/auth/register", newAccount());
  await app.login(user.email);
  await app.login(user.email);
  await app.login(user.email, WRONG_PASSWORD);
  const after = await overview();
  const added = (name: string) => after[name].today - before[name].today;
  expect(added("signIns")).toBe(2);
  expect(added("failedSignIns")).toBe(1);
  expect(added("registrations")).toBe(2); // also the user who signs in
  expect(after.users).toBe(before.users + 2);
  expect(after.failedSignInShare).toBeCloseTo(
    after.failedSignIns.today / (after.failedSignIns.today + after.signIns.today),
  );
  expect(after.days).toHaveLength(30);
  expect(after.days.at(-1)).toBe(dayOf(0));
  expect(after.signIns.daily.at(-1)).toBe(after.signIns.today);
  await sealed();
  expect((await overview()).activeUsers.today).toBe(before.activeUsers.today + 1);
});

test("GET /admin/overview, period: covers 7 days, or 24 hours by the hour, over REST and gRPC", async () => {
  const user = await app.addUser();
  await app.login(user.email);
  await app.login(user.email, WRONG_PASSWORD);
  const now = app.clock.now();
  const hoursAgo = (hours: number) => new Date(now.getTime() - hours * 3_600_000);
  await storeCall(user.id, "hourly", "completed", now);
  await storeCall(user.id, "hourly", "completed", hoursAgo(20));
  await storeCall(user.id, "hourly", "completed", hoursAgo(30));
  await storeCall(user.id, "hourly", "completed", hoursAgo(24 * 8));
  const read = async (period: string) => (await admin.get(`/admin/overview?period=${period}`)).body;
  const callsOf = ({ models }: { models: { model: string; calls: number }[] }) =>
    models.find(({ model }) => model === "hourly-1")?.calls;
  const [month, week, day] = [await read("30d"), await read("7d"), await read("24h")];
  expect([month, week, day].map(callsOf)).toEqual([4, 3, 2]);
  expect(month.days).toHaveLength(30);
  expect(week.days).toEqual(month.days.slice(-7));
  expect(week.signIns.daily).toEqual(month.signIns.daily.slice(-7));
  expect(week.signIns.total).toBe(
    month.signIns.daily.slice(-7).reduce((a: number, b: number) => a + b),
  );
  expect([month.hours, week.hours, day.days]).toEqual([[], [], []]);
  expect(day.hours).toHaveLength(24);
  const thisHour = Math.floor(now.getTime() / 3_600_000) * 3_600_000;
  expect(Date.parse(day.hours.at(-1))).toBe(thisHour);
  expect(day.aiCalls.daily).toHaveLength(24);
  expect(day.signIns.today).toBeGreaterThan(0);
  expect(day.signIns.total).toBeGreaterThanOrEqual(day.signIns.today);
  expect(day.failedSignIns.total).toBeGreaterThan(0);
  const { total: failed } = day.failedSignIns;
  expect(day.periodFailedSignInShare).toBeCloseTo(failed / (failed + day.signIns.total));
  expect(day.activeUsers).toEqual({ today: week.activeUsers.today, daily: [] });
  const over = await app.grpc(AdminService).getOverview({ period: "24h" }, admin);
  expect(over.hours).toHaveLength(24);
  expect(over.aiCalls?.total).toBe(day.aiCalls.total);
  expect(await admin.get("/admin/overview?period=1y")).toMatchObject(invalid("period"));
});

test("GET /admin/overview: counts an event once, before and after it is sealed", async () => {
  const user = await app.addUser();
  const before = (await overview()).signIns.today;
  await app.login(user.email);
  const early = (await overview()).signIns.today;
  await sealed();
  expect([early, (await overview()).signIns.today]).toEqual([before + 1, before + 1]);
});

test("GET /admin/overview: a user who continues a session is active on the next day", async () => {
  const { browser, user } = await app.signIn();
  app.clock.advance("25h");
  await admin.browser.post("/auth/refresh");
  const fresh = await app.signInAdmin(admin.user);
  expect((await browser.post("/auth/refresh")).status).toBe(200);
  const rows = await app.sql("select 1 from active_users where user_id = ? and day = ?", [
    user.id,
    dayOf(0),
  ]);
  expect(rows).toHaveLength(1);
  const { body } = await fresh.get("/admin/overview");
  expect(body.activeUsers.today).toBeGreaterThan(0);
  Object.assign(admin, fresh);
});

test("GET /admin/overview: shows AI calls, tokens and models of 30 days", async () => {
  const user = await app.addUser();
  const before = await overview(); // an earlier call may be of the same day
  await storeCall(user.id, "big", "completed", atDay(3));
  await storeCall(user.id, "big", "completed", atDay(3));
  await storeCall(user.id, "big", "completed", atDay(29));
  await storeCall(user.id, "old", "completed", atDay(30));
  const { aiCalls, aiTokens, models } = await overview();
  expect(aiCalls.daily[26]).toBe(before.aiCalls.daily[26] + 2);
  expect(aiTokens.daily[26]).toBe(before.aiTokens.daily[26] + 20);
  expect(aiCalls.total).toBe(aiCalls.daily.reduce((sum: number, n: number) => sum + n, 0));
  const [big] = models.filter(({ provider }: { provider: string }) => provider === "big");
  expect(big).toMatchObject({ model: "big-1", calls: 3 });
  expect([big.dailyCalls[0], big.dailyCalls[26]]).toEqual([1, 2]);
  expect(JSON.stringify(models)).not.toContain("old");
});

test("GET /admin/overview: shows failed e-mails, locked accounts and a failing provider", async () => {
  const user = await app.addUser();
  const before = await overview(); // other suites of the process leave things behind
  await app.lock(user.email);
  await app.lock(freshEmail()); // nobody's address
  await app.sql(
    `update emails set status = 'failed', next_attempt_at = null where id =
       (select id from emails where template = 'verify-email' order by id desc limit 1)`,
    [],
  );
  const outcomes = ["overloaded", "unreachable", "timed out", "completed", "completed"];
  for (const [second, outcome] of outcomes.entries())
    await storeCall(
      user.id,
      "shaky",
      outcome,
      new Date(app.clock.now().getTime() - 60_000 + second * 1_000),
    );
  for (const outcome of ["blocked the content", "rejected the request", "completed", "cancelled"])
    for (let i = 0; i < 3; i++) await storeCall(user.id, "strict", outcome, app.clock.now());
  const body = await overview();
  const countOf = (kind: string, { attention }: { attention: { kind: string; count: number }[] }) =>
    attention.find((each) => each.kind === kind)?.count ?? 0;
  expect(body.failedEmails.today).toBe(before.failedEmails.today + 1);
  for (const kind of ["failed-emails", "locked-accounts"])
    expect(countOf(kind, body), kind).toBe(countOf(kind, before) + 1);
  expect(body.attention).toContainEqual({
    ...{ kind: "provider-failing", provider: "shaky", count: 3, calls: 5 },
    ...{ failure: "timed out", users: [] },
  });
  expect(body.attention).not.toContainEqual(expect.objectContaining({ provider: "strict" }));
  const healthOf = (name: string) =>
    body.providers.find(({ provider }: { provider: string }) => provider === name);
  expect(healthOf("shaky")).toMatchObject({
    ...{ calls: 5, failedCalls: 3, medianLatencyMs: 120 },
    ...{ lastFailure: "timed out", lastFailureAt: TIME },
  });
  expect(healthOf("strict")).toEqual({
    ...{ provider: "strict", calls: 9, failedCalls: 0, medianLatencyMs: 120 },
  });
});

test("GET /admin/overview: lists locked users and the error of failed e-mails, over REST and gRPC", async () => {
  const until = new Date(app.clock.now().getTime() + 100 * DAY_MS);
  until.setUTCMilliseconds(120);
  const users = await Promise.all([1, 2, 3, 4].map((i) => app.addUser({ name: `Locked ${i}` })));
  for (const [i, { email }] of users.entries())
    await app.sql(
      `insert into attempts (kind, subject, reserved_at, locked_until) values ('password', ?, now(), ?)
       on conflict (kind, subject) do update set locked_until = excluded.locked_until`,
      [email.toLowerCase(), new Date(until.getTime() - i * 1_000)],
    );
  const { id } = users[0] as (typeof users)[0];
  await app.sql(
    `insert into emails (id, user_id, "to", template, facts, status, attempts, last_error, created_at)
     values (?, ?, 'x@example.com', 'verify-email', '{}', 'failed', 1, '552 mailbox full', now())`,
    ["ffffffff-0000-7000-8000-000000000000", id],
  );
  const { attention } = await overview();
  const named = users.slice(0, 3).map((user) => ({
    ...{ id: user.id, email: user.email, name: user.name },
  }));
  expect(attention).toContainEqual({
    ...{ kind: "locked-accounts", count: expect.any(Number), users: named },
    until: until.toISOString(),
  });
  expect(attention).toContainEqual({
    ...{ kind: "failed-emails", count: expect.any(Number), users: [], failure: "552 mailbox full" },
  });
  const over = await app.grpc(AdminService).getOverview({}, admin);
  const notice = over.attention.find(({ kind }) => kind === "locked-accounts");
  expect(notice?.users).toMatchObject(named);
  await app.sql("update attempts set locked_until = null where locked_until > ?", [
    new Date(until.getTime() - DAY_MS),
  ]);
});

test("GET /admin/overview: shows webhooks that fail or were disabled automatically, and not those that somebody disabled", async () => {
  const add = (path: string, failingSince: string | null, reason: string | null) =>
    app.sql(
      `insert into webhooks (id, url, description, events, secret, position, failing_since, disabled_at, disabled_reason, created_at)
       values (gen_random_uuid(), ?, 'CRM', '{user.erased}', 'x', 1000000000, ?, ?, ?, now())`,
      [`https://hooks.example/${path}`, failingSince, reason && "2026-11-20T10:00:00Z", reason],
    );
  await add("failing", "2026-11-19T10:00:00Z", null);
  await add("gone", "2026-11-19T10:00:00Z", "gone");
  await add("wanted", "2026-11-19T10:00:00Z", "requested");
  await add("fine", null, null);
  await app.sql(
    `insert into webhook_deliveries (id, webhook_id, event_id, event, status, queued_at, last_error, created_at)
     select gen_random_uuid(), id, gen_random_uuid(), 'user.erased', 'failed', now(), 'answered 500', now()
     from webhooks where url like '%/failing'`,
  );
  const { attention } = await overview();
  const about = (path: string) => ({
    webhook: { id: expect.any(String), url: `https://hooks.example/${path}`, description: "CRM" },
    users: [],
  });
  expect(attention.filter(({ kind }: { kind: string }) => kind.startsWith("webhook"))).toEqual(
    expect.arrayContaining([
      {
        ...{ kind: "webhook-failing", since: "2026-11-19T10:00:00Z", failure: "answered 500" },
        ...about("failing"),
      },
      { kind: "webhook-disabled", since: "2026-11-20T10:00:00Z", ...about("gone") },
    ]),
  );
  expect(JSON.stringify(attention)).not.toMatch(/wanted|fine/);
  await app.sql("delete from webhooks where url like 'https://hooks.example/%'");
});

test("GET /admin/overview: compares complete days with the same days one period earlier", async () => {
  const user = await app.addUser();
  for (const daysAgo of [2, 3, 3, 9, 10, 13, 14])
    await storeCall(user.id, "steady", "completed", atDay(daysAgo));
  const [month, week] = await Promise.all(
    ["30d", "7d"].map(async (period) => {
      return (await admin.get(`/admin/overview?period=${period}`)).body;
    }),
  );
  const sum = (counts: number[]) => counts.reduce((total, count) => total + count, 0);
  const { daily } = month.aiCalls;
  const [now, before] = [sum(daily.slice(-7, -1)), sum(daily.slice(-14, -8))];
  expect(before).toBeGreaterThanOrEqual(3);
  expect(week.aiCalls.change).toBeCloseTo(now / before - 1);
  expect(week.activeUsers.average).toBeCloseTo(sum(week.activeUsers.daily.slice(0, -1)) / 6);
  expect(week.models.every(({ calls }: { calls: number }) => calls > 0)).toBe(true);
});

test("GET /admin/overview, 24h: compares the hours that are over with the same hours a day earlier", async () => {
  const user = await app.addUser();
  const now = app.clock.now();
  const thisHour = Math.floor(now.getTime() / 3_600_000) * 3_600_000;
  const hoursAgo = (hours: number) => new Date(thisHour - hours * 3_600_000);
  for (const hours of [0, 1, 23, 24, 25, 25, 46, 47, 48])
    await storeCall(user.id, "hours", "completed", hoursAgo(hours));
  const { aiCalls, aiTokens, activeUsers } = (await admin.get("/admin/overview?period=24h")).body;
  const [before] = await app.sql<{ calls: number; tokens: number }>(
    `select count(*)::int as calls, sum(input_tokens + output_tokens)::int as tokens
     from ai_usage where created_at >= ? and created_at < ?`,
    [hoursAgo(47), hoursAgo(24)],
  );
  const sum = (counts: number[]) => counts.reduce((total, count) => total + count, 0);
  expect(before?.calls).toBeGreaterThanOrEqual(4);
  for (const [{ daily, change }, earlier] of [
    [aiCalls, before?.calls],
    [aiTokens, before?.tokens],
  ])
    expect(change).toBeCloseTo(sum(daily.slice(0, -1)) / earlier - 1);
  expect(activeUsers).not.toHaveProperty("change");
});

test("GET /admin/overview: shows the used share of budgets of the deployment", async () => {
  const budget = { scope: "deployment", unit: "tokens", period: "month", limit: "1000000" };
  const { body } = await admin.put("/admin/budgets", budget);
  const { id } = body.budget;
  const adjusted = { used: "430000", reason: "a test" };
  expect((await admin.post(`/admin/budgets/${id}/adjust`, adjusted)).status).toBe(200);
  await admin.put("/admin/budgets", { ...budget, scope: "role", subject: "user" });
  expect((await overview()).budgets).toEqual([
    { unit: "tokens", period: "month", usedShare: 0.43 },
  ]);
  const { items } = (await admin.get("/admin/budgets")).body;
  for (const each of items) await admin.delete(`/admin/budgets/${each.id}`);
  expect((await overview()).budgets).toEqual([]);
});

test("GET /admin/overview: calls of a provider are part of its health", async () => {
  const { post } = await app.signIn();
  await post("/ai/chat", conversationOf("case: plain", "provider-a"));
  await expect
    .poll(async () => (await overview()).providers)
    .toContainEqual(expect.objectContaining({ provider: "provider-a", failedCalls: 0 }));
});

test("GET /admin/overview: is for administrators only, over REST and gRPC", async () => {
  const user = await app.signIn();
  expect((await user.get("/admin/overview")).status).toBe(403);
  const { getOverview } = app.grpc(AdminService);
  expect((await getOverview({}, admin)).days).toHaveLength(30);
  await expect(getOverview({}, user)).rejects.toMatchObject({ code: Code.PermissionDenied });
});
