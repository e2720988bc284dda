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

test("GET /admin/overview, period: shows 7 days, or 24 hours by hour, as GetOverview does", async () => {
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
  await storeCall(user.id, "big", "completed", atDay(3));
  await storeCall(user.id, "big", "completed", atDay(3));
  await storeCall(user.id, "big", "completed", atDay(29));
  await storeCall(user.id, "old", "completed", atDay(30));
  const { aiCalls, aiTokens, models } = await overview();
  expect(aiCalls.daily[26]).toBe(2);
  expect(aiTokens.daily[26]).toBe(20);
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
  expect(body.attention).toContainEqual({ kind: "provider-failing", provider: "shaky", count: 3 });
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

test("GET /admin/overview: a reply of a provider is part of its health", async () => {
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
