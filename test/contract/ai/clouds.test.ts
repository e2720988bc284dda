import { afterAll, test as base, describe, expect, vi } from "vitest";
import { CALLING } from "../../../scripts/simulators/dialect-encoder.ts";
import { REPLY } from "../../../scripts/simulators/script.ts";
import { CLOUDS, startClouds } from "../../support/ai/clouds.ts";
import { completionOf, readCompletion } from "../../support/ai/completions.ts";
import { startSuiteApp } from "../../support/app.ts";
import { bearer } from "../../support/http/client.ts";
import { forSuite } from "../../support/suites.ts";
import { until } from "../../support/until.ts";

const target = (id: string, weight: number) => ({ provider: id, model: `${id}-model`, weight });
const clouds = await forSuite(
  startClouds({}, [
    {
      name: "assistant",
      targets: [target("bedrock-openai", 1), target("vertex-anthropic", 0)],
    },
  ]),
);
clouds.use();
afterAll(() => {
  vi.unstubAllEnvs();
});
const app = await startSuiteApp({ env: { ...clouds.env, RATE_LIMITS: "off", AI_RETRIES: "1" } });
const test = base.extend("account", () => app.signIn());
const PATH = "/v1/chat/completions";
const messagesOf = (content: string) => [{ role: "user", content }];

describe.each(CLOUDS)("A cloud behind the routes: $id", ({ id, dialect }) => {
  const model = `${id}-model`;
  const provider = id;

  test("GET /ai/providers, GET /v1/models: lists it as configured", async ({
    account: { get },
  }) => {
    const { body } = await get("/ai/providers");
    expect(body).toContainEqual(
      expect.objectContaining({ provider, configured: true, defaultModel: model }),
    );
    const { body: models } = await get("/v1/models");
    expect(models.data).toContainEqual(expect.objectContaining({ id: model, owned_by: provider }));
  });

  test("POST /ai/chat, POST /ai/stream: reply, and record tokens and costs", async ({
    account,
  }) => {
    const calling = (billed: string) => ({ provider, messages: messagesOf(`case: ${billed}`) });
    const { status, body } = await account.post("/ai/chat", calling("billed 1000,200,0,0,0,0"));
    expect(status).toBe(200);
    expect(body.usage).toMatchObject({ inputTokens: 1000, outputTokens: 200 });
    const { text } = await account.post("/ai/stream", calling("billed 30,4,0,0,0,0"));
    expect(text).toContain("data: [DONE]");
    expect(text).not.toContain('"error"');
    const rows = await until("the usage of both calls", async () => {
      const { body: listed } = await account.get("/user/usage");
      return listed[0]?.calls === 2 && listed;
    });
    const sums = { calls: 2, inputTokens: 1030, outputTokens: 204, estimatedCalls: 0 };
    // 1 for a million tokens of input, 4 for a million of output
    expect(rows).toEqual([expect.objectContaining({ provider, model, ...sums, cost: "0.001846" })]);
  });

  test("POST /v1/chat/completions: replies in full, as a stream, and with tool calls", async ({
    account: { post },
  }) => {
    const whole = await post(PATH, { model, messages: messagesOf("case: plain") });
    expect(whole.body.choices[0].message.content).toBe(REPLY);
    expect(whole.headers.get("x-ai-provider")).toBe(provider);
    const streamed = await post(PATH, {
      ...{ model, stream: true, messages: messagesOf("case: plain") },
    });
    expect(streamed.text).toContain("data: [DONE]");
    const tools = [
      { type: "function", function: { name: "look_up", parameters: { type: "object" } } },
    ];
    const called = await post(PATH, { model, tools, messages: messagesOf("case: calling") });
    expect(called.body.choices[0].finish_reason).toBe("tool_calls");
    expect(called.body.choices[0].message.tool_calls).toHaveLength(CALLING.calls.length);
  });

  test("Complete: replies over gRPC", async ({ account }) => {
    const { headers } = account;
    const { text, finished } = await readCompletion(app, completionOf("case: plain", model), {
      headers,
    });
    expect({ text, finishReason: finished?.finishReason }).toEqual({
      text: REPLY,
      finishReason: "stop",
    });
  });

  test("POST /v1/chat/completions: failures have the status of their cause", async ({
    account: { post },
  }) => {
    for (const [name, status] of [
      ["invalid", 400],
      ["overloaded", 503],
      ["rate-limited", 429],
      ["bad-key", 500],
    ] as const)
      expect(await post(PATH, { model, messages: messagesOf(`case: ${name}`) })).toMatchObject({
        status,
      });
  });

  test.runIf(dialect === "anthropic")(
    "POST /v1/messages, POST /v1/messages/count_tokens: are relayed with an unchanged body",
    async ({ account: { post } }) => {
      const mark = crypto.randomUUID();
      const body = { model, max_tokens: 1_000, messages: messagesOf(`case: plain ${mark}`) };
      const streamed = await post("/v1/messages", { ...body, stream: true });
      expect(streamed.text).toContain("event: message_stop");
      const whole = await post("/v1/messages", body);
      expect(whole.body.content[0].text).toBe(REPLY);
      const counted = await post("/v1/messages/count_tokens", body);
      expect(counted.body.input_tokens).toBeGreaterThan(0);
      const requests = clouds.simulatorOf(id).requests.filter(({ text }) => text.includes(mark));
      expect(requests).toHaveLength(3);
      expect(requests[1]?.text).toContain(`"max_tokens":1000,"messages":[{"role":"user"`);
    },
  );
});

test("POST /v1/responses: is relayed to OpenAI's models on Azure and Bedrock", async ({
  account: { post },
}) => {
  for (const id of ["azure-openai", "bedrock-openai"]) {
    const request = { model: `${id}-model`, input: "case: plain", store: false, stream: true };
    const { status, text } = await post("/v1/responses", request);
    expect(status).toBe(200);
    expect(text).toContain("event: response.completed");
  }
  expect(clouds.simulatorOf("azure-openai").requests.at(-1)?.path).toBe("/openai/responses");
  expect(clouds.simulatorOf("bedrock-openai").requests.at(-1)?.path).toBe("/openai/v1/responses");
});

test("POST /v1/embeddings: returns embeddings from Azure", async ({ account: { post } }) => {
  const request = { model: "azure-openai-vectors", input: ["Hello!", "👋"] };
  const { status, body } = await post("/v1/embeddings", request);
  expect(status).toBe(200);
  expect(body.data).toHaveLength(2);
  const { path } = clouds.simulatorOf("azure-openai").requests.at(-1) ?? {};
  expect(path).toBe("/openai/deployments/text-embedding-3-small/embeddings");
});

test("POST /v1/chat/completions: an alias continues from one cloud to another", async ({
  account: { post },
}) => {
  const mark = crypto.randomUUID();
  const request = { model: "assistant", messages: messagesOf(`case: overloaded-once ${mark}`) };
  const { status, headers, body } = await post(PATH, request);
  expect([status, headers.get("x-ai-provider")]).toEqual([200, "vertex-anthropic"]);
  expect(body.choices[0].message.content).toBe(REPLY);
  const attemptsAt = (id: string) =>
    clouds.simulatorOf(id).requests.filter(({ text }) => text.includes(mark)).length;
  // each cloud is overloaded once, and only the last one is tried again
  expect([attemptsAt("bedrock-openai"), attemptsAt("vertex-anthropic")]).toEqual([1, 2]);
});

test("POST /v1/chat/completions: an abort of the client closes the connection to the cloud", async ({
  account,
}) => {
  const client = new AbortController();
  const { requests } = clouds.simulatorOf("vertex-google");
  const before = requests.length;
  const messages = messagesOf("case: silent-midway");
  const body = { model: "vertex-google-model", stream: true, messages };
  const reading = fetch(app.url + PATH, {
    method: "POST",
    headers: { ...bearer(account.accessToken), "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: client.signal,
  }).then((response) => response.text());
  await until("the request at the cloud", () => requests.length > before);
  client.abort();
  await expect(reading).rejects.toThrow();
  await until("the end of its connection", () => requests[before]?.closedAt);
});

test("POST /v1/chat/completions: no response and no log line contains credentials of clouds", async ({
  account: { post },
}) => {
  const seen: string[] = [];
  for (const { id } of CLOUDS)
    for (const name of ["bad-key", "forbidden", "broken", "html-502", "error-event"]) {
      const content = `case: ${name} ${id}`;
      const { text } = await post(PATH, { model: `${id}-model`, messages: messagesOf(content) });
      seen.push(text);
    }
  seen.push(JSON.stringify(app.logs));
  expect(seen.join("\n")).not.toMatch(/simulated-(token|secret|key)|ASIASIMULATED|AWS4-HMAC/);
});
