import { randomUUID } from "node:crypto";
import { Code } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { conversationOf } from "../../support/ai/calls.ts";
import { createKey } from "../../support/api-keys.ts";
import { startSuiteApp } from "../../support/app.ts";
import { invalid } from "../../support/http/responses.ts";

const app = await startSuiteApp();
const admin = await app.signInAdmin();
const DAY_MS = 86_400_000;
const dayOf = (daysAgo: number) =>
  new Date(app.clock.now().getTime() - daysAgo * DAY_MS).toISOString().slice(0, 10);

type Group = { usage: { dailyTokens: number[] } };
type Stored = { userId: string; daysAgo: number; model?: string; tokens: number; calls?: number };

/** Stores calls at noon of a day. */
const store = ({ userId, daysAgo, model = "model-a-1", tokens, calls = 1 }: Stored) =>
  app.sql(
    `insert into ai_usage (id, user_id, provider, model, outcome, input_tokens, output_tokens, estimated, created_at)
     select gen_random_uuid(), ?, ?, ?, 'completed', ?, 1, n = 1, ?::timestamptz from generate_series(1, ?::int) as n`,
    [
      userId,
      model.replace(/model-(.).*/, "provider-$1"),
      model,
      tokens - 1,
      `${dayOf(daysAgo)}T12:00:00Z`,
      calls,
    ],
  );

/** A separate period for each test: days that no other test uses. */
const period = (firstAgo: number, lastAgo: number) =>
  `from=${dayOf(firstAgo)}T00:00:00Z&to=${dayOf(lastAgo)}T00:00:00Z`;
const sums = async (query: string) => (await admin.get(`/admin/usage/sums?${query}`)).body;

test("GET /admin/usage/sums: sums by day, model, provider and user, over REST and gRPC", async () => {
  const [ann, bob] = [await app.addUser({ name: "Ann" }), await app.addUser({ name: "Bob" })];
  await store({ userId: ann.id, daysAgo: 101, tokens: 10, calls: 2 });
  await store({ userId: ann.id, daysAgo: 100, tokens: 5, model: "model-a-2" });
  await store({ userId: bob.id, daysAgo: 100, tokens: 40, model: "model-b-1" });
  const query = period(102, 100);
  const totals = {
    ...{ calls: 4, inputTokens: 61, outputTokens: 4, estimatedCalls: 3 },
    ...{ dailyCalls: [0, 2, 2], dailyTokens: [0, 20, 45] },
  };
  const days = [dayOf(102), dayOf(101), dayOf(100)];
  const person = ({ id, email }: typeof ann, name: string) => ({ id, email, name });
  const groupsBy = async (groupBy: string) => {
    const body = await sums(`${query}&groupBy=${groupBy}`);
    expect(body).toMatchObject({ days, totals });
    expect(body).not.toHaveProperty("others");
    return body.groups;
  };
  expect(await groupsBy("day")).toMatchObject([
    { day: dayOf(100), usage: { calls: 2 } },
    { day: dayOf(101), usage: { calls: 2, inputTokens: 18, dailyTokens: [0, 20, 0] } },
  ]);
  expect(await groupsBy("model")).toMatchObject([
    { provider: "provider-b", model: "model-b-1", usage: { calls: 1, dailyTokens: [0, 0, 40] } },
    { provider: "provider-a", model: "model-a-1", usage: { calls: 2, dailyCalls: [0, 2, 0] } },
    { provider: "provider-a", model: "model-a-2", usage: { calls: 1 } },
  ]);
  expect(await groupsBy("provider")).toMatchObject([
    { provider: "provider-b", usage: { inputTokens: 39 } },
    { provider: "provider-a", usage: { inputTokens: 22, estimatedCalls: 2 } },
  ]);
  expect(await groupsBy("user")).toMatchObject([
    { user: person(bob, "Bob"), usage: { calls: 1 } },
    { user: person(ann, "Ann"), usage: { calls: 3, dailyTokens: [0, 20, 5] } },
  ]);
  const over = await app.grpc(AIService).sumUsage(
    {
      groupBy: "user",
      from: { seconds: BigInt(Date.parse(dayOf(102)) / 1000), nanos: 0 },
      to: { seconds: BigInt(Date.parse(dayOf(100)) / 1000), nanos: 0 },
    },
    admin,
  );
  expect(over.totals).toMatchObject(totals);
  expect(over.groups.map(({ user }) => user?.name)).toEqual(["Bob", "Ann"]);
});

test("GET /admin/usage/sums: the groups beyond the limit are summed up as others", async () => {
  for (const tokens of [1, 2, 3, 4]) {
    const { id: userId } = await app.addUser();
    await store({ userId, daysAgo: 110, tokens: tokens * 10, model: `model-a-${tokens}` });
  }
  for (const groupBy of ["user", "model"]) {
    const body = await sums(`${period(111, 110)}&groupBy=${groupBy}&limit=2`);
    expect(body.groups.map(({ usage }: Group) => usage.dailyTokens)).toEqual([
      [0, 40],
      [0, 30],
    ]);
    expect(body.others).toMatchObject({ calls: 2, inputTokens: 28, dailyTokens: [0, 30] });
  }
});

/** Adds users who call once on a day, with 100 tokens each. */
const addCallers = (count: number, daysAgo: number) =>
  app.sql(
    `with added as (
       insert into users (id, email, canonical_email, name, password_hash, password_changed_at, terms_accepted_at, created_at, updated_at)
       select id, id || '@example.com', id || '@example.com', 'Caller', '-', now(), now(), now(), now()
       from (select gen_random_uuid() as id from generate_series(1, ?::int)) as new returning id)
     insert into ai_usage (id, user_id, provider, model, outcome, input_tokens, created_at)
     select gen_random_uuid(), id, 'provider-a', 'model-a-1', 'completed', 100, ?::timestamptz from added`,
    [count, `${dayOf(daysAgo)}T12:00:00Z`],
  );

test("GET /admin/usage/sums: finds the top user of a period who is not near the top on any of its days", async () => {
  const steady = await app.addUser();
  for (const daysAgo of [120, 121, 122]) {
    await store({ userId: steady.id, daysAgo, tokens: 90 });
    await addCallers(60, daysAgo);
  }
  const { groups } = await sums(`${period(122, 120)}&groupBy=user&limit=1`);
  expect(groups).toMatchObject([{ user: { id: steady.id }, usage: { dailyTokens: [90, 90, 90] } }]);
});

test("GET /admin/usage/sums: sums the calls of one user, by model and user", async () => {
  const [ann, bob] = [await app.addUser(), await app.addUser()];
  await store({ userId: ann.id, daysAgo: 130, tokens: 10 });
  await store({ userId: bob.id, daysAgo: 130, tokens: 20, model: "model-b-1" });
  const query = `${period(130, 130)}&userId=${ann.id}`;
  expect(await sums(`${query}&groupBy=model`)).toMatchObject({
    totals: { calls: 1, dailyTokens: [10] },
    groups: [{ model: "model-a-1" }],
  });
  const { groups } = await sums(`${query}&groupBy=user`);
  expect(groups).toMatchObject([{ user: { id: ann.id }, usage: { calls: 1 } }]);
});

test("GET /admin/usage/sums: a call counts once, with its final tokens", async () => {
  const { user, post, get } = await app.signIn();
  await post("/ai/stream", conversationOf("case: plain"));
  await post("/ai/chat", conversationOf("case: plain"));
  const query = `userId=${user.id}&groupBy=user`;
  const [line] = await expect
    .poll(async () => (await get("/user/usage")).body)
    .toMatchObject([{ calls: 2, estimatedCalls: 0 }])
    .then(async () => (await get("/user/usage")).body);
  const { calls, inputTokens, outputTokens } = line;
  const body = await sums(query);
  expect(body.totals).toMatchObject({ calls, inputTokens, outputTokens, estimatedCalls: 0 });
  expect(body.groups).toMatchObject([{ usage: { calls, inputTokens, outputTokens } }]);
  const today = await app.sql("select calls from ai_usage_users where user_id = ?", [user.id]);
  expect(today).toEqual([{ calls: expect.anything() }]);
});

test("GET /admin/usage/sums: the calls of an erased user remain in the totals, without the user", async () => {
  const user = await app.addUser();
  await store({ userId: user.id, daysAgo: 140, tokens: 10 });
  expect((await admin.delete(`/admin/users/${user.id}`)).status).toBe(200);
  const body = await sums(`${period(140, 140)}&groupBy=user`);
  expect(body).toMatchObject({ totals: { calls: 1 }, groups: [], others: { calls: 1 } });
});

test("GET /admin/usage/sums: sums by API key and alias, and counts calls without one among the others", async () => {
  const ann = await app.addUser({ name: "Ann" });
  const { apiKey: key } = await createKey(await app.signIn(ann), { name: "Reports" });
  const deleted = randomUUID();
  await store({ userId: ann.id, daysAgo: 150, tokens: 10, calls: 3 });
  await store({ userId: ann.id, daysAgo: 151, tokens: 40 });
  const at = (daysAgo: number) => `${dayOf(daysAgo)}T12:00:00Z`;
  const mark = (apiKeyId: string, alias: string, daysAgo: number) =>
    app.sql(
      `update ai_usage set api_key_id = ?, alias = ? where id = (
         select id from ai_usage where user_id = ? and created_at = ?::timestamptz and api_key_id is null limit 1)`,
      [apiKeyId, alias, ann.id, at(daysAgo)],
    );
  await mark(key.id, "fast", 150);
  await mark(key.id, "fast", 151);
  await mark(deleted, "cheap", 150);
  const query = period(151, 150);
  const byKey = await sums(`${query}&groupBy=key`);
  expect(byKey.groups).toMatchObject([
    {
      ...{ apiKeyId: key.id, apiKeyName: "Reports", user: { id: ann.id, name: "Ann" } },
      usage: { calls: 2, dailyTokens: [40, 10] },
    },
    { apiKeyId: deleted, usage: { calls: 1 } },
  ]);
  expect(byKey.groups[1]).not.toHaveProperty("apiKeyName");
  expect(byKey).toMatchObject({ totals: { calls: 4 }, others: { calls: 1 } });
  const byAlias = await sums(`${query}&groupBy=alias&userId=${ann.id}&limit=1`);
  expect(byAlias.groups).toMatchObject([{ alias: "fast", usage: { calls: 2 } }]);
  expect(byAlias.others).toMatchObject({ calls: 2 });
  const over = await app.grpc(AIService).sumUsage(
    {
      ...{ groupBy: "key", userId: ann.id },
      from: { seconds: BigInt(Date.parse(at(151)) / 1000), nanos: 0 },
      to: { seconds: BigInt(Date.parse(at(150)) / 1000), nanos: 0 },
    },
    admin,
  );
  expect(over.groups.map(({ apiKeyId }) => apiKeyId)).toEqual([key.id, deleted]);
});

test("GET /admin/usage/sums: without a period, covers 30 days up to today", async () => {
  const { days, totals } = await sums("");
  expect(days).toHaveLength(30);
  expect(days.at(-1)).toBe(dayOf(0));
  expect(totals.dailyCalls).toHaveLength(30);
});

test.each([
  ["groupBy=session", "groupBy"],
  ["limit=0", "limit"],
  ["limit=101", "limit"],
  ["userId=nobody", "userId"],
  ["from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "from"],
  ["from=2025-01-01T00:00:00Z&to=2026-01-04T00:00:00Z", "from"],
  ["to=tomorrow", "to"],
])("GET /admin/usage/sums: rejects %s", async (query, field) => {
  expect(await admin.get(`/admin/usage/sums?${query}`)).toMatchObject(invalid(field));
});

test("GET /admin/usage/sums: is for administrators only, over REST and gRPC", async () => {
  const user = await app.signIn();
  expect((await user.get("/admin/usage/sums")).status).toBe(403);
  await expect(app.grpc(AIService).sumUsage({}, user)).rejects.toMatchObject({
    code: Code.PermissionDenied,
  });
});

test("GET /admin/usage: names the users until they are erased", async () => {
  const user = await app.addUser({ name: "Cleo" });
  await store({ userId: user.id, daysAgo: 3, tokens: 10, model: "model-of-cleo" });
  const rows = async () =>
    (await admin.get("/admin/usage")).body.filter(
      (row: { model: string }) => row.model === "model-of-cleo",
    );
  const person = { id: user.id, name: "Cleo", email: user.email };
  expect(await rows()).toMatchObject([{ userId: user.id, user: person }]);
  const { usage } = await app.grpc(AIService).listAllUsage({ userId: user.id }, admin);
  expect(usage).toMatchObject([{ user: person }]);
  await admin.delete(`/admin/users/${user.id}`);
  const [row] = await rows();
  expect(row).not.toHaveProperty("user");
});
