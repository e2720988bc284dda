import { Code, ConnectError } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { tokensIn } from "../../../scripts/simulators/dialect-encoder.ts";
import { REPLY } from "../../../scripts/simulators/script.ts";
import { signInAdmin } from "../../support/admin.ts";
import { conversationOf } from "../../support/ai-calls.ts";
import { testApp } from "../../support/app.ts";
import { until } from "../../support/until.ts";

const app = await testApp();
const today = () => app.clock.now().toISOString().slice(0, 10);

/** A user with successful and failed calls of three models, over REST and gRPC. */
async function callModels() {
  const { user, browser, accessToken } = await app.signIn();
  const headers = { authorization: `Bearer ${accessToken}` };
  const day = today();
  await browser.post("/ai/chat", conversationOf("case: plain"), accessToken);
  await app.grpc(AIService).chat(conversationOf("case: plain"), { headers });
  await browser.post("/ai/stream", { ...conversationOf("case: plain"), model: "model-a-2" }, accessToken);
  await browser.post("/ai/stream", { ...conversationOf("case: no-usage"), model: "model-a-3" }, accessToken);
  await browser.post("/ai/chat", conversationOf("case: bad-key", "provider-b"), accessToken);
  const line = (provider: string, model: string, calls: number) => ({ day, userId: user.id, provider, model, calls });
  const [read, guessed, written] = [tokensIn("case: plain"), tokensIn("case: no-usage"), tokensIn(REPLY)];
  const lines = [
    { ...line("provider-a", "model-a-1", 2), inputTokens: 2 * read, outputTokens: 2 * written, estimatedCalls: 0 },
    { ...line("provider-a", "model-a-2", 1), inputTokens: read, outputTokens: written, estimatedCalls: 0 },
    { ...line("provider-a", "model-a-3", 1), inputTokens: guessed, outputTokens: written, estimatedCalls: 1 },
    { ...line("provider-b", "model-b-1", 1), inputTokens: 0, outputTokens: 0, estimatedCalls: 1 }, // the key was refused
  ];
  const shown = async () => (await browser.get("/user/usage", accessToken)).body;
  await expect.poll(shown).toEqual(lines.map((each) => expect.objectContaining(each)));
  return { user, browser, accessToken, headers, lines };
}

test("GET /user/usage: shows the caller's usage by day, provider and model, as ListUsage does", async () => {
  const [{ browser, accessToken, headers, lines }] = await Promise.all([callModels(), callModels()]);
  const { body } = await browser.get("/user/usage", accessToken);
  expect(body).toEqual(lines.map((line) => expect.objectContaining(line)));
  const { usage } = await app.grpc(AIService).listUsage({}, { headers });
  expect(usage).toEqual(lines.map((line) => expect.objectContaining(line)));
  expect((await browser.get("/user/usage")).status).toBe(401);
});

test.each(["/ai/chat", "/ai/stream"])(
  "POST %s: usage of an impersonation belongs to the administrator",
  async (path) => {
    const [admin, { user, browser, accessToken }] = await Promise.all([signInAdmin(app), app.signIn()]);
    const { body: impersonated } = await admin.post(`/admin/impersonate/${user.id}`, {});
    await browser.post(path, conversationOf("case: plain"), impersonated.accessToken);
    const line = { userId: admin.user.id, provider: "provider-a", calls: 1 };
    const usage = await until("the usage of the call", async () => {
      const { body } = await admin.get("/user/usage");
      return body.length > 0 ? body : undefined;
    });
    expect(usage).toEqual([expect.objectContaining(line)]);
    expect((await browser.get("/user/usage", accessToken)).body).toEqual([]);
  },
);

test.each([
  ["/ai/chat", "blocked", "blocked the content"],
  ["/ai/stream", "blocked", "blocked the content"],
  ["/ai/chat", "tool-call", "unreadable reply"],
  ["/ai/stream", "tool-call", "unreadable reply"],
])("POST %s: a %s has the usage that the provider reports, though it fails", async (path, name, outcome) => {
  const { browser, accessToken } = await app.signIn();
  const providers = ["provider-a", "provider-b", "provider-c", "provider-d"];
  for (const provider of providers) await browser.post(path, conversationOf(`case: ${name}`, provider), accessToken);
  const usage = async () => (await browser.get("/user/export", accessToken)).body.usage.reverse();
  await expect.poll(usage).toMatchObject(providers.map((provider) => ({ provider, outcome, estimated: false })));
});

// another replica sees it once the batch of the replica that answered is written, some 20 ms later
test.skipIf(app.mode === "replicas")("GET /user/export: shows the outcome of a call once it is answered", async () => {
  const { browser, accessToken } = await app.signIn();
  for (let calls = 1; calls <= 5; calls++) {
    await browser.post("/ai/chat", conversationOf("case: plain"), accessToken);
    const { body } = await browser.get("/user/export", accessToken);
    expect(body.usage).toHaveLength(calls);
    expect(body.usage[0]).toMatchObject({ outcome: "completed", outputTokens: tokensIn(REPLY), estimated: false });
  }
});

test("GET /user/export: shows calls of a process that has died as failed", async () => {
  const { user, browser, accessToken } = await app.signIn();
  for (const minutes of [9, 11]) {
    await app.sql(
      `insert into ai_usage (id, user_id, provider, model, outcome, created_at)
       values (gen_random_uuid(), ?, 'provider-a', 'model-a-1', 'running', ?)`,
      [user.id, new Date(app.clock.now().getTime() - minutes * 60_000)],
    );
  }
  const { body } = await browser.get("/user/export", accessToken);
  expect(body.usage.map(({ outcome }: { outcome: string }) => outcome)).toEqual(["running", "failed"]);
});

test("GET /admin/usage: shows the usage of all users to administrators only, as ListAllUsage does", async () => {
  const [ann, bob] = await Promise.all([callModels(), callModels()]);
  const admin = await app.signIn(await app.addUser({ role: "admin" }));
  const headers = { authorization: `Bearer ${admin.accessToken}` };
  const all = await admin.browser.get("/admin/usage", admin.accessToken);
  for (const { lines } of [ann, bob]) {
    for (const line of lines) expect(all.body).toContainEqual(expect.objectContaining(line));
  }
  const one = await admin.browser.get(`/admin/usage?userId=${bob.user.id}`, admin.accessToken);
  expect(one.body).toEqual(bob.lines.map((line) => expect.objectContaining(line)));
  const { usage } = await app.grpc(AIService).listAllUsage({ userId: bob.user.id }, { headers });
  expect(usage).toEqual(bob.lines.map((line) => expect.objectContaining(line)));
  expect((await ann.browser.get("/admin/usage", ann.accessToken)).status).toBe(403);
  expect((await admin.browser.get("/admin/usage?userId=not-an-id", admin.accessToken)).status).toBe(400);
  const denied = await app
    .grpc(AIService)
    .listAllUsage({}, { headers: ann.headers })
    .catch((thrown) => ConnectError.from(thrown).code);
  expect(denied).toBe(Code.PermissionDenied);
});

test.each(["/user/usage", "/admin/usage"])("GET %s: shows the last 31 days, or from and to", async (path) => {
  const { user, browser, accessToken } = await app.signIn(await app.addUser({ role: "admin" }));
  const daysAgo = (days: number) => new Date(app.clock.now().getTime() - days * 86_400_000).toISOString();
  for (const [days, model] of [
    ["1", "new"],
    ["30", "older"],
    ["32", "old"],
    ["400", "ancient"],
  ] as const) {
    await app.sql(
      `insert into ai_usage (id, user_id, provider, model, outcome, created_at)
       values (gen_random_uuid(), ?, 'provider-a', ?, 'completed', ?)`,
      [user.id, model, daysAgo(Number(days))],
    );
  }
  const modelsIn = async (query: string) => {
    const { status, body } = await browser.get(`${path}?userId=${user.id}&${query}`, accessToken);
    return status === 200 ? body.map(({ model }: { model: string }) => model) : body;
  };
  expect(await modelsIn("")).toEqual(["new", "older"]);
  expect(await modelsIn(`from=${daysAgo(33)}`)).toEqual(["new", "older", "old"]);
  expect(await modelsIn(`to=${daysAgo(2)}`)).toEqual(["older", "old"]);
  expect(await modelsIn(`from=${daysAgo(31)}&to=${daysAgo(29)}`)).toEqual(["older"]);
  expect(await modelsIn(`from=${daysAgo(401)}&to=${daysAgo(399)}`)).toEqual(["ancient"]);
  expect(await modelsIn(`from=${daysAgo(401)}`)).toMatchObject({ statusCode: 400, violations: [{ field: "from" }] });
  expect(await modelsIn("to=tomorrow")).toMatchObject({ statusCode: 400 });
  for (const never of ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z"]) {
    expect(await modelsIn(`to=${never}`)).toMatchObject({ statusCode: 400, violations: [{ field: "to" }] });
  }
});

test.each(["/user/usage", "/admin/usage"])("GET %s: pages through all lines", async (path) => {
  const { user, browser, accessToken } = await app.signIn(await app.addUser({ role: "admin" }));
  await app.sql(
    `insert into ai_usage (id, user_id, provider, model, outcome, input_tokens, created_at)
     select gen_random_uuid(), ?, 'provider-a', 'model ' || n, 'completed', n, ? from generate_series(1, 5001) as n`,
    [user.id, app.clock.now()],
  );
  const read = async (page: string) =>
    (await browser.get(`${path}?userId=${user.id}${page}`, accessToken)).body as {
      model: string;
      inputTokens: number;
    }[];
  const pages = [await read(""), await read("&page=2"), await read("&page=3")];
  expect(pages.map(({ length }) => length)).toEqual([5_000, 1, 0]);
  expect(new Set(pages.flat().map(({ model }) => model)).size).toBe(5_001);
  expect(pages.flat().reduce((sum, { inputTokens }) => sum + inputTokens, 0)).toBe((5_001 * 5_002) / 2);
  expect(await read("&page=0")).toMatchObject({ statusCode: 400, violations: [{ field: "page" }] });
});
