import { test as base, describe, expect } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { FailureSchema, Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { tokensIn } from "../../../scripts/simulators/dialect-encoder.ts";
import { REPLY } from "../../../scripts/simulators/script.ts";
import { aiCallsOf, conversationOf, PROVIDERS } from "../../support/ai/calls.ts";
import { startSuiteApp, testApp } from "../../support/app.ts";
import { postJson } from "../../support/http/client.ts";
import { errorOf } from "../../support/http/stub-services.ts";
import { until } from "../../support/until.ts";

const app = await testApp();
const test = base.extend("account", () => app.signIn());
const limits = { MISTRAL_API_KEY: "", AI_STREAMS_PER_USER: "1" }; // of streams in one process
const limited = await startSuiteApp({
  mode: app.mode === "replicas" ? "servers" : app.mode,
  env: limits,
});
const modelOf = (provider: string) => `model-${provider.at(-1)}-1`;
/** The provider connection must close within this time after the client has disconnected. */
const CLOSED_WITHIN_MS = 50;
/** Cases in which the provider, or the wait for its next attempt, is silent. */
const SILENT = ["silent", "silent-after-headers", "silent-midway", "retry-after 30000"];

test("GET /ai/providers: lists all providers and their models", async ({ account: { get } }) => {
  const { status, body } = await get("/ai/providers");
  const listed = PROVIDERS.map((provider) => ({
    provider,
    defaultModel: modelOf(provider),
    configured: true,
  }));
  expect({ status, body }).toMatchObject({ status: 200, body: listed });
  const ignored = { "model-a-1": ["temperature"], "model-a-2": ["temperature"], "model-a-3": [] };
  expect(body[0].models).toEqual(
    Object.entries(ignored).map(([model, names]) => ({ model, ignored: names })),
  );
});

test.each(PROVIDERS)(
  "POST /ai/chat: returns the reply of %s, and only usage that the provider reported",
  async (provider) => {
    const { post } = await app.signIn();
    const { status, body } = await post("/ai/chat", conversationOf("case: plain", provider));
    const reply = { content: REPLY, model: modelOf(provider), provider, finishReason: "stop" };
    const usage = { inputTokens: tokensIn("case: plain"), outputTokens: tokensIn(REPLY) };
    expect({ status, body }).toEqual({ status: 200, body: { ...reply, usage } });
    expect((await post("/ai/chat", conversationOf("case: no-usage", provider))).body).toEqual(
      reply,
    );
  },
);

test.each(PROVIDERS)(
  "POST /ai/chat, Chat: %s reports the end at the maximum number of tokens",
  async (provider) => {
    const account = await app.signIn();
    for (const [name, content] of Object.entries({ "at-maximum": REPLY, "empty-at-maximum": "" })) {
      const conversation = conversationOf(`case: ${name}`, provider);
      const ended = { content, finishReason: "length" };
      expect((await account.post("/ai/chat", conversation)).body).toMatchObject(ended);
      expect(await app.grpc(AIService).chat(conversation, account)).toMatchObject(ended);
    }
  },
);

test("POST /ai/chat, /ai/stream, Chat, StreamChat: a header lists a temperature that the model ignores", async ({
  account: { post, headers },
}) => {
  for (const [given, ignored] of [
    [{ model: "model-a-1", temperature: 0 }, "temperature"],
    [{ model: "model-a-1" }, null],
    [{ model: "model-a-3", temperature: 1 }, null],
  ] as const) {
    const conversation = { ...conversationOf("case: plain"), ...given };
    const found: (string | null)[] = [];
    const onHeader = (header: Headers) => void found.push(header.get("x-ai-ignored"));
    for (const path of ["/ai/chat", "/ai/stream"])
      onHeader((await post(path, conversation)).headers);
    await app.grpc(AIService).chat(conversation, { headers, onHeader });
    for await (const _ of app.grpc(AIService).streamChat(conversation, { headers, onHeader }))
      expect(found.length).toBe(4);
    expect(found).toEqual([ignored, ignored, ignored, ignored]);
  }
});

test("POST /ai/chat: returns a complete reply of 10 MB", async ({ account: { post } }) => {
  const { status, body } = await post("/ai/chat", conversationOf("case: large-reply 10000000"));
  expect({ status, length: body.content.length }).toEqual({ status: 200, length: 10_000_000 });
});

test.each(["/ai/chat", "/ai/stream"])(
  "POST %s: lists all violations before the stream starts",
  async (path) => {
    const { browser, post } = await app.signIn();
    const good = conversationOf("case: plain");
    const unasked = [{ role: "assistant", content: "Hello." }];
    const robot = { role: "robot", content: 1 };
    const all = "messages[0].content,maxTokens,messages[0].role,temperature,model,messages";
    for (const [wrong, fields, message] of [
      [{ provider: "provider-z" }, "provider"],
      [{ model: "model-b-1" }, "model", "must be one of model-a-1, model-a-2, model-a-3"],
      [{ messages: [] }, "messages", "must not be empty"],
      [
        { messages: [{ role: "robot", content: "Hi." }] },
        "messages[0].role",
        "must be one of user, assistant, system",
      ],
      [{ messages: [...good.messages, { role: "assistant" }] }, "messages[1].content"],
      [
        { messages: [...good.messages, { role: "assistant", content: null }] },
        "messages[1].content",
      ],
      [{ messages: [{ role: "system", content: "Hello." }] }, "messages"],
      [{ messages: [{ role: "user", content: "" }] }, "messages"],
      [{ messages: [{ role: "user", content: "x".repeat(262_145) }] }, "messages"],
      [{ temperature: 2.1 }, "temperature", "must be from 0 to 2"],
      [{ maxTokens: 0 }, "maxTokens", "must be from 1 to 1000000"],
      [{ maxTokens: 2 ** 31 }, "maxTokens", "must be from 1 to 1000000"],
      [{ model: "model-z", messages: unasked }, "model,messages"],
      [
        { temperature: 3, provider: "provider-z", messages: unasked },
        "temperature,provider,messages",
      ],
      [{ maxTokens: "1", temperature: 3, model: "model-z", messages: [robot] }, all],
    ] as const) {
      const { status, body, headers } = await post(path, { ...good, ...wrong });
      expect(status, fields).toBe(400);
      expect(headers.get("content-type")).toMatch(/^application\/json/);
      expect(body.violations.map(({ field }: { field: string }) => field).join()).toBe(fields);
      if (message) expect(body.violations[0].message).toBe(message);
    }
    expect((await browser.post(path, good)).status).toBe(401);
  },
);

test("Chat, StreamChat: one error lists all violations, and malformed metadata of type errors is rejected", async ({
  account,
}) => {
  const ask = async (headers: Record<string, string>) => {
    const wrong = { ...conversationOf("Hello.", "provider-z"), temperature: 3 };
    const options = { headers: { ...account.headers, ...headers } };
    const { chat, streamChat } = app.grpc(AIService);
    const calls = [chat(wrong, options), streamChat(wrong, options)[Symbol.asyncIterator]().next()];
    return (await Promise.all(calls.map(errorOf))).map(
      (error) => error.findDetails(FailureSchema)[0],
    );
  };
  for (const failure of await ask({}))
    expect(failure?.violations.map(({ field }) => field)).toEqual(["temperature", "provider"]);
  for (const failure of await ask({ "x-gatehouse-type-errors": "{" }))
    expect(failure?.reason).toBe(Reason.MALFORMED_REQUEST);
});

test("POST /ai/chat: limits count characters, not bytes", async ({ account: { post } }) => {
  for (const [size, expected] of [[262_144, 200] as const, [262_145, 400] as const]) {
    const content = `case: plain ${"👍".repeat(size - "case: plain ".length)}`;
    expect((await post("/ai/chat", conversationOf(content))).status).toBe(expected);
  }
});

test("POST /ai/chat, POST /ai/stream: a provider without a key is 422 for chat and an error event for a stream", async () => {
  const { user, get, post } = await limited.signIn();
  const message = "The AI provider provider-d is not configured: MISTRAL_API_KEY is missing.";
  const chat = await post("/ai/chat", conversationOf("Hello.", "provider-d"));
  expect(chat).toMatchObject({ status: 422, body: { code: "PROVIDER_NOT_CONFIGURED", message } });
  const stream = await post("/ai/stream", conversationOf("Hello.", "provider-d"));
  const event = { error: message, code: "PROVIDER_NOT_CONFIGURED" };
  const body = `data: ${JSON.stringify(event)}\n\ndata: [DONE]\n\n`;
  expect(stream).toMatchObject({ status: 200, body });
  expect(stream.headers.get("ratelimit-limit")).toBe("100");
  expect((await get("/ai/providers")).body[3]).toMatchObject({ configured: false });
  expect(limited.providers[3]?.requests).toEqual([]);
  expect(await limited.sql("select 1 from ai_usage where user_id = ?", [user.id])).toEqual([]);
});

/** What fails during a stream, and the code of the event that tells it. */
const STREAM_FAILURES = [
  { name: "a provider without a key", provider: "provider-d", content: "Hello." },
  { name: "a key that the provider refuses", provider: "provider-a", content: "case: bad-key" },
  { name: "an error in the reply", provider: "provider-b", content: "case: error-event" },
  { name: "a reply that breaks off", provider: "provider-a", content: "case: reset-midway" },
];
test.for(STREAM_FAILURES)(
  "POST /ai/stream: the error event for $name has the message and the code of /ai/chat, in this order",
  async ({ provider, content }) => {
    const { post } = await limited.signIn();
    const conversation = conversationOf(content, provider);
    const stream = String((await post("/ai/stream", conversation)).body);
    const { message, code } = (await post("/ai/chat", conversation)).body;
    const event = `data: ${JSON.stringify({ error: message, code })}\n\ndata: [DONE]\n\n`;
    expect(stream.slice(-event.length)).toBe(event);
  },
);

test("POST /ai/stream: a stream beyond AI_STREAMS_PER_USER is 429, with Retry-After and the rate limit", async () => {
  const { post, accessToken } = await limited.signIn();
  const client = new AbortController();
  await postJson(
    `${limited.url}/ai/stream`,
    conversationOf("case: silent-midway"),
    accessToken,
    client.signal,
  );
  const { status, body, headers } = await post("/ai/stream", conversationOf("Hello."));
  expect([status, body.code, headers.get("retry-after")]).toEqual([
    429,
    "TOO_MANY_CONCURRENT",
    "1",
  ]);
  expect([headers.get("ratelimit-limit"), headers.get("ratelimit-remaining")]).toEqual([
    "100",
    "98",
  ]);
  client.abort();
});

describe.each(SILENT)(
  "AI: a client that disconnects during %s frees the provider connection",
  (name) => {
    const [simulator] = app.providers;

    test.each(Object.entries(aiCallsOf(app)))("%s", async (_name, call) => {
      const { accessToken } = await app.signIn();
      const content = `case: ${name} ${crypto.randomUUID()}`;
      const client = new AbortController();
      const calling = call(content, accessToken, client.signal).catch(() => {});
      const request = await until("the request at the provider", () =>
        simulator?.requests.find(({ body }) => JSON.stringify(body).includes(content)),
      );
      await new Promise((resolve) => setTimeout(resolve, 30));
      const leftAt = performance.now();
      const before = performance.eventLoopUtilization();
      client.abort();
      const closedAt = await until(
        "the end of the request at the provider",
        () => request.closedAt,
      );
      const { active: busyMs } = performance.eventLoopUtilization(before);
      await calling;
      expect(closedAt - leftAt - busyMs).toBeLessThan(CLOSED_WITHIN_MS);
    });
  },
);
