import { test as base, describe, expect } from "vitest";
import { PREFIX, REPLY } from "../../../scripts/simulators/script.ts";
import { PROVIDERS } from "../../support/ai/calls.ts";
import { readCompletion, textMessage } from "../../support/ai/completions.ts";
import { createKey } from "../../support/api-keys.ts";
import { testApp } from "../../support/app.ts";
import { postJson } from "../../support/http/client.ts";
import { until } from "../../support/until.ts";

const app = await testApp();
const test = base.extend("account", () => app.signIn());
const modelOf = (provider: string) => `model-${provider.at(-1)}-1`;
const PATH = "/v1/chat/completions";
const completionOf = (content: string, provider = "provider-a") => ({
  model: modelOf(provider),
  messages: [{ role: "user", content }],
});
/** The JSON of the events of a stream, without [DONE]. */
const eventsIn = (text: string) =>
  [...text.matchAll(/^data: (\{.*\})$/gm)].map(([, json = ""]) => JSON.parse(json));
const textIn = (text: string) =>
  eventsIn(text)
    .map(({ choices }) => choices?.[0]?.delta.content ?? "")
    .join("");

describe.each(PROVIDERS)("POST /v1/chat/completions: %s", (provider) => {
  test.for([false, true])(
    "a failure before the first chunk has the status of its cause (stream: %s)",
    async (stream, { account: { post } }) => {
      for (const [name, status, code] of [
        ["invalid", 400, "provider_rejected"],
        ["rate-limited", 429, "provider_rate_limited"],
        ["overloaded", 503, "provider_overloaded"],
        ["bad-key", 500, "provider_error"],
      ] as const) {
        const request = { ...completionOf(`case: ${name}`, provider), stream };
        const answer = await post(PATH, request);
        expect([answer.status, answer.body.error.code], name).toEqual([status, code]);
        const isFinal = status === 400 || name === "bad-key";
        expect(answer.headers.get("x-should-retry"), name).toBe(isFinal ? "false" : null);
      }
    },
  );

  test("an interrupted stream has an error before [DONE], and no finish_reason", async ({
    account: { post },
  }) => {
    const request = { ...completionOf("case: reset-midway", provider), stream: true };
    const { status, text } = await post(PATH, request);
    expect([status, textIn(text)]).toEqual([200, PREFIX]);
    expect(eventsIn(text).at(-1).error).toMatchObject({ code: "provider_error" });
    expect(text).toMatch(/\n\ndata: \{"error":[^\n]+\n\ndata: \[DONE\]\n\n$/);
    expect(text).not.toContain('"finish_reason":"');
  });

  test("a filter in the middle of a stream is its finish_reason, and one before the first chunk an error", async ({
    account: { post },
  }) => {
    const request = completionOf("case: blocked", provider);
    const { text } = await post(PATH, { ...request, stream: true });
    expect(textIn(text)).toBe(PREFIX);
    expect(text).toMatch(/"finish_reason":"content_filter"\}\]\}\n\ndata: \[DONE\]\n\n$/);
    expect(await post(PATH, request)).toMatchObject({
      status: 400,
      body: { error: { code: "content_filter" } },
    });
  });

  test("ends with finish_reason length at the maximum number of tokens", async ({
    account: { post },
  }) => {
    const { body } = await post(PATH, completionOf("case: at-maximum", provider));
    expect(body.choices[0]).toMatchObject({ finish_reason: "length", message: { content: REPLY } });
  });

  test("accepts a question of 2 MB, and returns a reply of 4 MB", async ({ account: { post } }) => {
    const large = completionOf(`${"x ".repeat(1_000_000)}\ncase: large-reply 4000000`, provider);
    const { status, body } = await post(PATH, large);
    expect([status, body.choices?.[0].message.content.length]).toEqual([200, 4_000_000]);
  });
});

test("POST /v1/chat/completions: 2,048 messages are accepted, and 2,049 are rejected", async ({
  account: { post },
}) => {
  const messages = (count: number) => [
    ...Array.from({ length: count - 1 }, () => ({
      role: "user",
      content: [{ type: "text", text: "a" }],
    })),
    { role: "user", content: "case: plain" },
  ];
  const ask = (count: number) => post(PATH, { model: "model-a-1", messages: messages(count) });
  expect((await ask(2_048)).status).toBe(200);
  expect(await ask(2_049)).toMatchObject({
    status: 400,
    body: { error: { param: "messages", code: "invalid_value" } },
  });
});

test("Complete: 2,048 messages are accepted on the gRPC port too", async ({ account }) => {
  const messages = Array.from({ length: 2_048 }, () => textMessage("user", "case: plain"));
  const request = { model: "model-b-1", messages };
  expect(await readCompletion(app, request, account)).toMatchObject({ text: REPLY });
});

test("POST /v1/chat/completions: the message lists all violations, with OpenAI's field names", async ({
  account: { post },
}) => {
  const fields = { temperature: 3, max_tokens: 0, top_p: "1", stop: ["a", "b", "c", "d", "e"] };
  const { status, body } = await post(PATH, { ...completionOf("Hello!"), ...fields });
  expect([status, body.error.type]).toEqual([400, "invalid_request_error"]);
  for (const field of ["temperature", "max_completion_tokens", "top_p", "stop"])
    expect(body.error.message).toContain(field);
});

test("POST /v1/chat/completions: a seed beyond 2^53 is rejected, not rounded", async ({
  account: { accessToken },
}) => {
  const request = JSON.stringify({ ...completionOf("case: plain"), seed: 0 });
  const send = (seed: string) =>
    app.httpClient().post(PATH, request.replace('"seed":0', `"seed":${seed}`), accessToken);
  expect((await send(`${2 ** 53 - 1}`)).status).toBe(200);
  const { status, body } = await send("9007199254740993");
  expect([status, body.error.param]).toEqual([400, "seed"]);
});

test("POST /v1/chat/completions, GET /v1/models: are 401 without a credential and with a wrong one", async () => {
  const client = app.httpClient();
  for (const token of [undefined, "sk-gate-wrong", "ey.wrong.token"])
    for (const answer of [
      await client.post(PATH, completionOf("Hello!"), token),
      await client.get("/v1/models", token),
      await client.get("/v1/models/model-a-1", token),
    ]) {
      expect(answer).toMatchObject({ status: 401, body: { error: { code: "invalid_api_key" } } });
      expect(answer.headers.get("www-authenticate")).toBe("Bearer");
    }
});

test("GET /v1/models: an API key lists its own models, and others are 404", async ({ account }) => {
  const { key } = await createKey(account, { models: ["model-b-1", "provider-c/model-c-1"] });
  const client = app.httpClient();
  const { body } = await client.get("/v1/models", key);
  expect(body).toEqual({
    object: "list",
    data: ["b", "c"].map((letter) => ({
      id: `model-${letter}-1`,
      object: "model",
      created: expect.any(Number),
      owned_by: `provider-${letter}`,
    })),
  });
  const notFound = { status: 404, body: { error: { code: "model_not_found", param: "model" } } };
  expect(await client.get("/v1/models/model-a-1", key)).toMatchObject(notFound);
  expect(await client.post(PATH, completionOf("case: plain"), key)).toMatchObject(notFound);
  const allowed = await client.post(PATH, completionOf("case: plain", "provider-b"), key);
  expect(allowed.body.model).toBe("model-b-1");
});

test("POST /v1/chat/completions: a stream ends with an error when its key is revoked", async ({
  account,
}) => {
  const { key, apiKey } = await createKey(account);
  const question = completionOf(`case: silent-midway ${crypto.randomUUID()}`);
  const { body } = await postJson(app.url + PATH, { ...question, stream: true }, key);
  const stream = { text: "", isOver: false };
  const read = (async () => {
    for await (const part of (body as ReadableStream).pipeThrough(new TextDecoderStream()))
      stream.text += part;
    stream.isOver = true;
  })();
  await until("the first text", () => textIn(stream.text) !== "");
  await account.delete(`/user/api-keys/${apiKey.id}`);
  await read;
  expect(eventsIn(stream.text).at(-1)).toMatchObject({ error: { code: "invalid_api_key" } });
  expect(stream.text).not.toContain('"finish_reason":"');
});

test("POST /v1/chat/completions: usage is recorded for the user, with the id of the reply", async ({
  account: { get, post },
}) => {
  const { body } = await post(PATH, completionOf("case: plain", "provider-b"));
  await until("the usage", async () => (await get("/user/usage")).body.length > 0);
  const { body: usage } = await get("/user/usage");
  expect(usage).toMatchObject([
    {
      provider: "provider-b",
      model: "model-b-1",
      calls: 1,
      inputTokens: body.usage.prompt_tokens,
      outputTokens: body.usage.completion_tokens,
    },
  ]);
  const rows = await app.sql("select id from ai_usage where id = ?", [
    body.id.replace("chatcmpl-", ""),
  ]);
  expect(rows).toHaveLength(1);
});
