import { Code } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { tokensIn } from "../../../scripts/simulators/dialect-encoder.ts";
import { REPLY } from "../../../scripts/simulators/script.ts";
import { conversationOf, PROVIDERS } from "../../support/ai/calls.ts";
import { testApp } from "../../support/app.ts";
import { until } from "../../support/until.ts";

const app = await testApp();
const DAY_MS = 86_400_000;
const PATHS = ["/ai/chat", "/ai/stream"];

/** A user with successful and failed calls of three models, over REST and gRPC. */
async function callModels() {
  const account = await app.signIn();
  const { user, get, post } = account;
  const day = app.clock.now().toISOString().slice(0, 10);
  await post("/ai/chat", conversationOf("case: plain"));
  await app.grpc(AIService).chat(conversationOf("case: plain"), account);
  await post("/ai/stream", { ...conversationOf("case: plain"), model: "model-a-2" });
  await post("/ai/stream", { ...conversationOf("case: no-usage"), model: "model-a-3" });
  await post("/ai/chat", conversationOf("case: bad-key", "provider-b"));
  const line = (provider: string, model: string, calls: number) => ({
    day,
    userId: user.id,
    provider,
    model,
    calls,
  });
  const [read, guessed, written] = [
    tokensIn("case: plain"),
    tokensIn("case: no-usage"),
    tokensIn(REPLY),
  ];
  const lines = [
    {
      ...line("provider-a", "model-a-1", 2),
      inputTokens: 2 * read,
      outputTokens: 2 * written,
      estimatedCalls: 0,
    },
    {
      ...line("provider-a", "model-a-2", 1),
      inputTokens: read,
      outputTokens: written,
      estimatedCalls: 0,
    },
    {
      ...line("provider-a", "model-a-3", 1),
      inputTokens: guessed,
      outputTokens: written,
      estimatedCalls: 1,
    },
    { ...line("provider-b", "model-b-1", 1), inputTokens: 0, outputTokens: 0, estimatedCalls: 1 }, // the key was refused
  ].map((each) => expect.objectContaining(each));
  await expect.poll(async () => (await get("/user/usage")).body).toEqual(lines);
  return { ...account, lines };
}

test("GET /user/usage: shows the caller's usage by day, provider and model, over REST and gRPC", async () => {
  const [account] = await Promise.all([callModels(), callModels()]);
  expect((await account.get("/user/usage")).body).toEqual(account.lines);
  expect((await app.grpc(AIService).listUsage({}, account)).usage).toEqual(account.lines);
  expect((await app.httpClient().get("/user/usage")).status).toBe(401);
});

test.each(PATHS)(
  "POST %s: usage of an impersonation belongs to the administrator",
  async (path) => {
    const [admin, { user, get }] = await Promise.all([app.signInAdmin(), app.signIn()]);
    const { body: impersonated } = await admin.post(`/admin/impersonate/${user.id}`, {});
    await app.httpClient().post(path, conversationOf("case: plain"), impersonated.accessToken);
    const usage = async () => (await admin.get("/user/usage")).body;
    await expect
      .poll(usage)
      .toMatchObject([{ userId: admin.user.id, provider: "provider-a", calls: 1 }]);
    expect((await get("/user/usage")).body).toEqual([]);
  },
);

test.each([
  ["blocked", "blocked the content"],
  ["tool-call", "unreadable reply"],
])(
  "POST /ai/chat, /ai/stream: a %s reply fails, and its usage is the reported one",
  async (name, outcome) => {
    const { get, post } = await app.signIn();
    const expected = [];
    for (const path of PATHS) {
      for (const provider of PROVIDERS) {
        await post(path, conversationOf(`case: ${name}`, provider));
        expected.unshift({ provider, outcome, estimated: false });
      }
    }
    await expect.poll(async () => (await get("/user/export")).body.usage).toMatchObject(expected);
  },
);

const RESET_TOKENS = tokensIn("case: reset");
test("POST /ai/chat: usage contains the kind of failure, and only the log its cause; an estimate includes the system prompt", async () => {
  const logged = app.logs.length;
  const { get, post } = await app.signIn();
  for (const [name, more] of [
    ["bad-key"],
    ["reset"],
    ["no-usage", { systemPrompt: "Be brief." }],
  ] as const)
    await post("/ai/chat", { ...conversationOf(`case: ${name}`), ...more });
  const usage = await until("the usage of all calls, also those of other replicas", async () => {
    const { body } = await get("/user/export");
    return body.usage.length === 3 && body.usage;
  });
  expect(usage).toMatchObject([
    { outcome: "completed", inputTokens: tokensIn("case: no-usageBe brief."), estimated: true },
    // each of three attempts may have been read before its connection was reset
    { outcome: "unreachable", inputTokens: 3 * RESET_TOKENS, outputTokens: 0, estimated: true },
    { outcome: "refused the key", inputTokens: 0, outputTokens: 0, estimated: true },
  ]);
  const causes = app.logs.slice(logged).map((line) => JSON.parse(line));
  expect(causes.filter(({ detail }) => detail)).toMatchObject([
    {
      requestId: expect.any(String),
      detail: "HTTP 401",
      msg: "The AI provider provider-a failed: refused the key.",
    },
    { requestId: expect.any(String), detail: "ECONNRESET" },
  ]);
});

// another replica sees it once the batch of the replica that answered is written, some 20 ms later
test.skipIf(app.mode === "replicas")(
  "GET /user/export: contains the outcome of a call as soon as it is answered",
  async () => {
    const { get, post } = await app.signIn();
    for (let calls = 1; calls <= 5; calls++) {
      await post("/ai/chat", conversationOf("case: plain"));
      const { body } = await get("/user/export");
      expect(body.usage).toHaveLength(calls);
      expect(body.usage[0]).toMatchObject({
        outcome: "completed",
        outputTokens: tokensIn(REPLY),
        estimated: false,
      });
    }
  },
);

/** Stores a call of some days ago. */
const storeCall = (userId: string, model: string, outcome: string, daysAgo: number) =>
  app.sql(
    `insert into ai_usage (id, user_id, provider, model, outcome, created_at)
     values (gen_random_uuid(), ?, 'provider-a', ?, ?, ?)`,
    [userId, model, outcome, new Date(app.clock.now().getTime() - daysAgo * DAY_MS)],
  );

test("GET /user/export: shows calls of a crashed process as failed", async () => {
  const { user, get } = await app.signIn();
  for (const minutes of [9, 11])
    await storeCall(user.id, "model-a-1", "running", (minutes * 60_000) / DAY_MS);
  const { body } = await get("/user/export");
  expect(body.usage.map(({ outcome }: { outcome: string }) => outcome)).toEqual([
    "running",
    "failed",
  ]);
});

test("GET /admin/usage: shows the usage of all users to administrators only, over REST and gRPC", async () => {
  const [ann, bob, admin] = await Promise.all([callModels(), callModels(), app.signInAdmin()]);
  const { body: all } = await admin.get("/admin/usage");
  for (const line of [...ann.lines, ...bob.lines]) expect(all).toContainEqual(line);
  expect((await admin.get(`/admin/usage?userId=${bob.user.id}`)).body).toEqual(bob.lines);
  const { listAllUsage } = app.grpc(AIService);
  expect((await listAllUsage({ userId: bob.user.id }, admin)).usage).toEqual(bob.lines);
  expect((await ann.get("/admin/usage")).status).toBe(403);
  expect((await admin.get("/admin/usage?userId=not-an-id")).status).toBe(400);
  await expect(listAllUsage({}, ann)).rejects.toMatchObject({ code: Code.PermissionDenied });
});

test.each(["/user/usage", "/admin/usage"])(
  "GET %s: covers the last 31 days, or the given period",
  async (path) => {
    const { user, get } = await app.signInAdmin();
    const daysAgo = (days: number) =>
      new Date(app.clock.now().getTime() - days * DAY_MS).toISOString();
    const models = { new: 1, older: 30, old: 32, ancient: 400 };
    for (const [model, days] of Object.entries(models))
      await storeCall(user.id, model, "completed", days);
    const modelsIn = async (query: string) => {
      const { status, body } = await get(`${path}?userId=${user.id}&${query}`);
      return status === 200 ? body.map(({ model }: { model: string }) => model) : body;
    };
    expect(await modelsIn("")).toEqual(["new", "older"]);
    expect(await modelsIn(`from=${daysAgo(33)}`)).toEqual(["new", "older", "old"]);
    expect(await modelsIn(`to=${daysAgo(2)}`)).toEqual(["older", "old"]);
    expect(await modelsIn(`from=${daysAgo(31)}&to=${daysAgo(29)}`)).toEqual(["older"]);
    expect(await modelsIn(`from=${daysAgo(401)}&to=${daysAgo(399)}`)).toEqual(["ancient"]);
    expect(await modelsIn(`from=${daysAgo(401)}`)).toMatchObject({
      statusCode: 400,
      violations: [{ field: "from" }],
    });
    for (const never of ["tomorrow", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z"])
      expect(await modelsIn(`to=${never}`)).toMatchObject({
        statusCode: 400,
        violations: [{ field: "to" }],
      });
  },
);

test.each(["/user/usage", "/admin/usage"])(
  "GET %s: returns all lines page by page",
  async (path) => {
    const { user, get } = await app.signInAdmin();
    await app.sql(
      `insert into ai_usage (id, user_id, provider, model, outcome, input_tokens, created_at)
     select gen_random_uuid(), ?, 'provider-a', 'model ' || n, 'completed', n, ? from generate_series(1, 1001) as n`,
      [user.id, app.clock.now()],
    );
    type Line = { model: string; inputTokens: number };
    const read = async (page: number): Promise<Line[]> =>
      (await get(`${path}?userId=${user.id}&page=${page}`)).body;
    const pages = [
      (await get(`${path}?userId=${user.id}`)).body as Line[],
      await read(2),
      await read(3),
    ];
    expect(pages.map(({ length }) => length)).toEqual([1_000, 1, 0]);
    expect(new Set(pages.flat().map(({ model }) => model)).size).toBe(1_001);
    expect(pages.flat().reduce((sum, { inputTokens }) => sum + inputTokens, 0)).toBe(
      (1_001 * 1_002) / 2,
    );
    expect(await read(0)).toMatchObject({ statusCode: 400, violations: [{ field: "page" }] });
  },
);

test("GET /admin/usage: returns the lines of all users page by page in one order, with those of erased users last", async () => {
  const [admin, ann, bob] = [await app.signInAdmin(), await app.addUser(), await app.addUser()];
  const day = new Date(app.clock.now().getTime() - 70 * DAY_MS).toISOString().slice(0, 10);
  await app.sql(
    `insert into ai_usage (id, user_id, provider, model, outcome, created_at)
     select gen_random_uuid(), id, 'p', 'model ' || n, 'completed', ?::timestamptz + n * interval '100 seconds'
     from unnest(array[?, ?, null]::uuid[]) as id, generate_series(1, 400) as n`,
    [day, ann.id, bob.id],
  );
  type Line = { userId?: string; model: string };
  const read = async (page: number): Promise<Line[]> => {
    const period = `from=${day}T00:00:00Z&to=${day}T23:59:59Z`;
    return (await admin.get(`/admin/usage?${period}&page=${page}`)).body;
  };
  const [first, second] = [await read(1), await read(2)];
  expect([first.length, second.length]).toEqual([1_000, 200]);
  const lines = [...first, ...second].map(({ userId = "erased", model }) => `${userId} ${model}`);
  expect(lines).toEqual([...new Set(lines)].sort());
  const afterHours = `from=${day}T11:05:50Z&to=${day}T12:00:00Z`; // after the last but one call
  const { body: last } = await admin.get(`/admin/usage?${afterHours}`);
  expect(last.map(({ model }: Line) => model)).toEqual(Array(3).fill("model 400"));
});
