import { Code } from "@connectrpc/connect";
import { test as base, describe, expect } from "vitest";
import { AIService, type RelayEvent } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { KEY } from "../../../scripts/simulators/simulator.ts";
import { createKey } from "../../support/api-keys.ts";
import { testApp } from "../../support/app.ts";
import { bearer, postJson } from "../../support/http/client.ts";
import { errorOf } from "../../support/http/stub-services.ts";
import { until } from "../../support/until.ts";

const app = await testApp();
const test = base.extend("account", () => app.signIn());

/** A foreign API, and the provider that has it. */
const APIS = [
  {
    path: "/v1/messages",
    provider: 1,
    model: "model-b-1",
    upstream: "claude-sonnet-5-5",
    field: "max_tokens",
    bodyOf: (content: string, model = "model-b-1") => ({
      ...{ model, max_tokens: 1_000 },
      messages: [{ role: "user", content }],
    }),
    headers: { "x-api-key": KEY, "anthropic-version": "2023-06-01" },
    last: "event: message_stop",
    statuses: { overloaded: 529, invalid: 400, "rate-limited": 429, "bad-key": 500 },
  },
  {
    path: "/v1/responses",
    provider: 0,
    model: "model-a-1",
    upstream: "gpt-6.1-sol",
    field: "max_output_tokens",
    bodyOf: (input: string, model = "model-a-1") => ({ model, input, store: false }),
    headers: { authorization: `Bearer ${KEY}` },
    last: "event: response.completed",
    statuses: { overloaded: 503, invalid: 400, "rate-limited": 429, "bad-key": 500 },
  },
] as const;
type Api = (typeof APIS)[number];

/** Asks the provider of an API itself. */
async function askProvider(
  { path, provider, headers, bodyOf, upstream }: Api,
  content: string,
  stream: boolean,
) {
  const response = await fetch(`${app.providers[provider]?.url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ ...bodyOf(content, upstream), stream }),
  });
  return response.text();
}

/** The text of the deltas of a stream. */
const textIn = (text: string) =>
  [...text.matchAll(/^data: (\{.*\})$/gm)]
    .map(([, json = ""]) => JSON.parse(json))
    .map(({ type, delta }) => {
      if (type === "response.output_text.delta") return delta;
      return type === "content_block_delta" ? (delta.text ?? "") : "";
    })
    .join("");

describe.each(APIS)("POST $path", (api) => {
  const { path, bodyOf, model, upstream, field, provider } = api;
  const requestsOf = (content: string) =>
    app.providers[provider]?.requests.filter(({ body }) =>
      JSON.stringify(body).includes(content),
    ) ?? [];

  test.for(["plain", "calling", "thinking", "idle", "comments", "multi-line", "bytes", "gzip"])(
    "every event of a stream is unchanged: %s",
    async (name, { account: { post } }) => {
      const content = `case: ${name}`;
      const { status, headers, text } = await post(path, { ...bodyOf(content), stream: true });
      expect(status).toBe(200);
      expect(headers.get("content-type")).toContain("text/event-stream");
      expect(headers.get("x-ai-model")).toBe(model);
      const direct = await askProvider(api, content, true);
      const withoutEnd = direct.slice(0, direct.indexOf("\n\n", direct.lastIndexOf(api.last)) + 2);
      expect(text).toBe(withoutEnd);
    },
  );

  test.for(["plain", "calling", "at-maximum"])(
    "a whole reply is unchanged: %s",
    async (name, { account: { post } }) => {
      const content = `case: ${name}`;
      const { status, headers, body } = await post(path, bodyOf(content));
      expect([status, headers.get("x-ai-provider")]).toEqual([200, `provider-${model.at(-3)}`]);
      expect(body).toEqual(JSON.parse(await askProvider(api, content, false)));
    },
  );

  test("the body arrives as it is, but for the name of the model", async ({
    account: { accessToken },
  }) => {
    const mark = crypto.randomUUID();
    const json = JSON.stringify({ ...bodyOf(`case: plain ${mark}`), metadata: { user_id: "u-1" } });
    const odd = json.replace('"user_id":"u-1"', '"user_id" : "u\\u002d1\\u0000"');
    const response = await fetch(app.url + path, {
      method: "POST",
      headers: { ...bearer(accessToken), "content-type": "application/json" },
      body: odd,
    });
    expect(response.status).toBe(200);
    const [request] = requestsOf(mark);
    expect(request?.body).toEqual({ ...JSON.parse(odd), model: upstream });
    expect(JSON.stringify(request?.headers)).not.toContain(accessToken);
  });

  test("a maximum of tokens above that of the model is lowered, and a smaller one is not", async ({
    account: { post },
  }) => {
    for (const [given, sent] of [
      [2_000, 2_000],
      [9_000_000, undefined],
    ] as const) {
      const mark = crypto.randomUUID();
      await post(path, { ...bodyOf(`case: plain ${mark}`), [field]: given });
      const [request] = requestsOf(mark);
      const { [field]: most } = (request?.body ?? {}) as Record<string, number>;
      expect(most).toBeLessThan(1_000_000);
      if (sent) expect(most).toBe(sent);
    }
  });

  test.for([
    ...["reset-midway", "closed-midway", "ended-midway", "half-an-event", "broken-utf8"],
    ...["error-event", "error-event-named", "malformed-event"],
  ])("a stream that fails never looks finished: %s", async (name, { account: { post } }) => {
    const content = `case: ${name} ${crypto.randomUUID()}`;
    const { status, text } = await post(path, { ...bodyOf(content), stream: true });
    expect(status).toBe(200);
    expect(text).not.toContain(api.last);
    expect(text).toMatch(/\n\nevent: error\ndata: \{"type":"error",[^\n]+\}\n\n$/);
    expect(text).not.toContain("sk-echo");
    expect(text.match(/^event: error$/gm)).toHaveLength(1);
  });

  test("a stream without its closing event fails, although the text is complete", async ({
    account: { post },
  }) => {
    const direct = await askProvider(api, "case: plain", true);
    expect(direct).toContain(api.last);
    const { text } = await post(path, { ...bodyOf("case: no-closing-event"), stream: true });
    expect(textIn(text)).toBe(textIn(direct));
    expect(text).toMatch(/event: error\ndata: [^\n]+\n\n$/);
  });

  test.for(Object.entries(api.statuses))(
    "a failure before the first byte is a status in the form of the API: %s",
    async ([name, status], { account: { post } }) => {
      for (const stream of [true, false]) {
        const answer = await post(path, { ...bodyOf(`case: ${name}`), stream });
        expect(answer.status).toBe(status);
        expect(answer.body.error).toMatchObject({
          type: expect.any(String),
          message: expect.stringContaining("The AI provider"),
        });
        expect(JSON.stringify(answer.body)).not.toContain("sk-echo");
        expect(answer.headers.get("x-should-retry")).toBe(status === 400 ? "false" : null);
      }
    },
  );

  test("an unknown model is 404, and one of another dialect 400 with a sentence", async ({
    account: { post },
  }) => {
    expect((await post(path, bodyOf("Hello!", "no-such-model"))).status).toBe(404);
    for (const other of ["model-c-1", provider === 0 ? "model-b-1" : "model-a-1"]) {
      const { status, body } = await post(path, bodyOf("Hello!", other));
      expect([status, body.error.message]).toEqual([
        400,
        "Invalid request: model is not a model with this API: use POST /v1/chat/completions.",
      ]);
    }
  });

  test("a key that names other models gets 404, and none 401", async ({ account }) => {
    const { key } = await createKey(account, { models: ["model-c-1"] });
    const client = app.httpClient();
    expect((await client.post(path, bodyOf("case: plain"), key)).status).toBe(404);
    expect((await client.post(path, bodyOf("case: plain"))).status).toBe(401);
    expect((await client.post(path, bodyOf("case: plain"), "sk-gate-wrong")).status).toBe(401);
  });

  test.for([
    ["an unreadable body", "{"],
    ["no object", "[]"],
    ["a duplicate key", '{"model":"a","model":"b"}'],
  ])("is 400 for %s", async ([, body], { account: { accessToken } }) => {
    const headers = { ...bearer(accessToken), "content-type": "application/json" };
    const response = await fetch(app.url + path, { method: "POST", headers, body: body as string });
    expect(response.status).toBe(400);
    const { error } = (await response.json()) as { error: { message: string } };
    expect(error.message).toMatch(/^The body/);
  });

  test("is 400 for a model, a stream or a maximum that is none, with all of them", async ({
    account: { post },
  }) => {
    const { status, body } = await post(path, {
      ...bodyOf("Hello!"),
      model: 1,
      stream: "yes",
      [field]: -1,
    });
    expect(status).toBe(400);
    for (const name of ["model", "stream", field]) expect(body.error.message).toContain(name);
  });

  test("usage is that of the provider, whole and streamed, and of what was cut off an estimate", async ({
    account: { user, post },
  }) => {
    const rows = () =>
      app.sql<{ outcome: string; input_tokens: number; output_tokens: number; estimated: boolean }>(
        "select outcome, model, input_tokens, output_tokens, estimated from ai_usage where user_id = ? order by id",
        [user.id],
      );
    await post(path, bodyOf("case: calling"));
    await post(path, { ...bodyOf("case: calling"), stream: true });
    await post(path, { ...bodyOf("case: reset-midway"), stream: true });
    await until(
      "the usage",
      async () => (await rows()).filter(({ outcome }) => outcome !== "running").length === 3,
    );
    const counted = {
      outcome: "completed",
      model,
      input_tokens: 40,
      output_tokens: 30,
      estimated: false,
    };
    expect(await rows()).toEqual([
      counted,
      counted,
      {
        ...counted,
        outcome: "broke off",
        input_tokens: expect.any(Number),
        output_tokens: expect.any(Number),
        estimated: true,
      },
    ]);
  });

  test("a stream ends by an error when its key is revoked", async ({ account }) => {
    const { key, apiKey } = await createKey(account);
    const request = { ...bodyOf(`case: silent-midway ${crypto.randomUUID()}`), stream: true };
    const { body } = await postJson(app.url + path, request, key);
    const stream = { text: "", isOver: false };
    const read = (async () => {
      for await (const part of (body as ReadableStream).pipeThrough(new TextDecoderStream()))
        stream.text += part;
    })();
    await until("the first text", () => textIn(stream.text) !== "");
    await account.delete(`/user/api-keys/${apiKey.id}`);
    await read;
    expect(stream.text).toMatch(/event: error\ndata: [^\n]+\n\n$/);
  });
});

describe("POST /v1/messages", () => {
  const [{ path, bodyOf }] = APIS;
  const refused = (fields: object) => ({ ...bodyOf("case: plain"), ...fields });
  const FILE = { type: "file", file_id: "file_1" };

  test.for<[string, object]>([
    ["container", { container: "c_1" }],
    ["mcp_servers", { mcp_servers: [{ type: "url", url: "https://example.com", name: "m" }] }],
    ["fallbacks", { fallbacks: "default" }],
    ["service_tier", { service_tier: "priority" }],
    ["speed", { speed: "fast" }],
    ["tools[0].type", { tools: [{ type: "web_search_20250305", name: "web_search" }] }],
    ["tools[0].type", { tools: [{ type: "code_execution_20250825", name: "code_execution" }] }],
    ["tools[0].type", { tools: [{ type: "bash_20250124", name: "bash" }] }],
    ["tools[0].type", { tools: [{ type: "computer_20250124", name: "computer" }] }],
    [
      "messages[0].content[0].source",
      { messages: [{ role: "user", content: [{ type: "document", source: FILE }] }] },
    ],
    [
      "messages[0].content[0].content[0].source",
      {
        messages: [
          {
            role: "user",
            content: [
              { type: "tool_result", tool_use_id: "t", content: [{ type: "image", source: FILE }] },
            ],
          },
        ],
      },
    ],
    [
      "messages[0].content[0].type",
      { messages: [{ role: "user", content: [{ type: "container_upload", file_id: "file_1" }] }] },
    ],
  ])("refuses %s", async ([field, fields], { account: { post } }) => {
    const { status, body } = await post(path, refused(fields));
    expect([status, body.type, body.error.type]).toEqual([400, "error", "invalid_request_error"]);
    expect(body.error.message).toContain(`${field} is not supported`);
    expect((await post(`${path}/count_tokens`, refused(fields))).status).toBe(400);
  });

  test("a tool of the client may have any argument", async ({ account: { post } }) => {
    const input = { file_id: "file_1", container: "c_1", type: "file" };
    const { status } = await post(
      path,
      refused({
        tools: [{ name: "read", input_schema: { type: "object", properties: { file_id: {} } } }],
        messages: [
          { role: "user", content: "Read it." },
          { role: "assistant", content: [{ type: "tool_use", id: "t_1", name: "read", input }] },
          {
            role: "user",
            content: [{ type: "tool_result", tool_use_id: "t_1", content: "case: plain" }],
          },
        ],
      }),
    );
    expect(status).toBe(200);
  });

  test("the key may be in x-api-key, which counts only without Authorization", async ({
    account,
  }) => {
    const { key } = await createKey(account);
    const ask = (
      headers: Record<string, string>,
      at: string = path,
      body: object = bodyOf("case: plain"),
    ) =>
      fetch(app.url + at, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify(body),
      });
    expect((await ask({ "x-api-key": key })).status).toBe(200);
    expect((await ask({ "x-api-key": key }, `${path}/count_tokens`)).status).toBe(200);
    expect((await ask({ "x-api-key": "sk-gate-wrong" })).status).toBe(401);
    expect((await ask({ "x-api-key": key, authorization: "Bearer sk-gate-wrong" })).status).toBe(
      401,
    );
    const chat = { model: "model-b-1", messages: [{ role: "user", content: "case: plain" }] };
    expect((await ask({ "x-api-key": key }, "/v1/chat/completions", chat)).status).toBe(401);
  });

  test("anthropic-beta passes by the list of the catalogue, and others are named", async ({
    account,
  }) => {
    const mark = crypto.randomUUID();
    const response = await fetch(app.url + path, {
      method: "POST",
      headers: {
        ...bearer(account.accessToken),
        "content-type": "application/json",
        "anthropic-version": "2026-10-21",
        "anthropic-beta": "context-1m-2025-08-07, interleaved-thinking-2025-05-14",
      },
      body: JSON.stringify(bodyOf(`case: plain ${mark}`)),
    });
    expect(response.status).toBe(200);
    expect(response.headers.get("x-ai-ignored")).toBe("anthropic-beta.context-1m-2025-08-07");
    const request = app.providers[1]?.requests.find(({ body }) =>
      JSON.stringify(body).includes(mark),
    );
    expect(request?.headers).toMatchObject({
      "anthropic-beta": "interleaved-thinking-2025-05-14",
      "anthropic-version": "2026-10-21",
    });
    expect(request?.headers["x-api-key"]).toBeUndefined();
  });

  test("POST /v1/messages/count_tokens: returns the count, and is no call of a model", async ({
    account: { user, post, get },
  }) => {
    const { messages } = bodyOf("Hello, how are you?");
    const counted = await post(`${path}/count_tokens`, { model: "provider-b/model-b-1", messages });
    expect(counted).toMatchObject({ status: 200, body: { input_tokens: 5 } });
    expect(counted.headers.get("ratelimit-remaining")).toBe("299");
    expect((await post(`${path}/count_tokens`, { model: "nobody", messages })).status).toBe(404);
    expect((await get("/user/usage")).body).toEqual([]);
    expect(await app.sql("select 1 from ai_usage where user_id = ?", [user.id])).toEqual([]);
  });

  test("errors of the port have the form of the API, on every path below", async ({ account }) => {
    const unknown = await account.get("/v1/messages/batches");
    expect(unknown).toMatchObject({
      status: 404,
      body: { type: "error", error: { type: "not_found_error" } },
    });
    const anonymous = await app.httpClient().post(path, bodyOf("Hello!"));
    expect(anonymous).toMatchObject({
      ...{ status: 401, body: { type: "error", error: { type: "authentication_error" } } },
    });
  });
});

describe("POST /v1/responses", () => {
  const { path, bodyOf } = APIS[1];

  test.for<[string, object]>([
    ["previous_response_id", { previous_response_id: "resp_1" }],
    ["conversation", { conversation: "conv_1" }],
    ["background", { background: true }],
    ["store", { store: true }],
    ["prompt", { prompt: { id: "pmpt_1" } }],
    ["service_tier", { service_tier: "priority" }],
    ["tools[0].type", { tools: [{ type: "web_search" }] }],
    ["tools[0].type", { tools: [{ type: "code_interpreter", container: { type: "auto" } }] }],
    ["tools[0].type", { tools: [{ type: "file_search", vector_store_ids: ["vs_1"] }] }],
    [
      "tools[0].type",
      { tools: [{ type: "mcp", server_label: "m", server_url: "https://x.test" }] },
    ],
    ["tools[0].type", { tools: [{ type: "computer_use_preview" }] }],
    [
      "tools[0].tools[0].type",
      {
        tools: [{ type: "namespace", name: "n", description: "", tools: [{ type: "web_search" }] }],
      },
    ],
    [
      "input[0].tools[0].type",
      { input: [{ type: "additional_tools", role: "developer", tools: [{ type: "mcp" }] }] },
    ],
    ["input[0].type", { input: [{ type: "item_reference", id: "msg_1" }] }],
    [
      "input[0].content[0].file_id",
      { input: [{ role: "user", content: [{ type: "input_file", file_id: "file_1" }] }] },
    ],
    [
      "input[0].output[0].file_id",
      {
        input: [
          {
            type: "function_call_output",
            call_id: "c",
            output: [{ type: "input_image", file_id: "file_1" }],
          },
        ],
      },
    ],
  ])("refuses %s", async ([field, fields], { account: { post } }) => {
    const { status, body } = await post(path, { ...bodyOf("case: plain"), ...fields });
    expect([status, body.error.param]).toEqual([400, field]);
    expect(body.error.message).toContain(`${field} is not supported`);
  });

  test("tools of the client may be in namespaces and in items", async ({ account: { post } }) => {
    const tools = [
      {
        type: "namespace",
        name: "functions",
        description: "",
        tools: [
          { type: "function", name: "f", parameters: {}, strict: false },
          { type: "custom", name: "c", format: { type: "text" } },
        ],
      },
    ];
    const items = [
      { type: "additional_tools", role: "developer", tools },
      { role: "user", content: "case: plain" },
    ];
    const { status } = await post(path, { ...bodyOf("case: plain"), tools, input: items });
    expect(status).toBe(200);
  });

  test("store is false at the provider where the body says nothing", async ({
    account: { post },
  }) => {
    const mark = crypto.randomUUID();
    const { status } = await post(path, { model: "model-a-1", input: `case: plain ${mark}` });
    expect(status).toBe(200);
    const request = app.providers[0]?.requests.find(({ body }) =>
      JSON.stringify(body).includes(mark),
    );
    expect(request?.body).toMatchObject({ store: false });
  });
});

describe("RelayMessages, RelayResponses, CountMessageTokens", () => {
  const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
  const read = async (events: AsyncIterable<RelayEvent>) => {
    const all: RelayEvent["event"][] = [];
    for await (const { event } of events) all.push(event);
    return all;
  };

  test("return the same over gRPC, and refuse the same", async ({ account }) => {
    const client = app.grpc(AIService);
    const [messages, responses] = APIS;
    const request = (api: Api, fields: object = {}) => ({
      body: bytes({ ...api.bodyOf("case: plain"), stream: true, ...fields }),
    });
    for (const [api, events] of [
      [messages, await read(client.relayMessages(request(messages), account))],
      [responses, await read(client.relayResponses(request(responses), account))],
    ] as const) {
      expect(events[0]).toMatchObject({ case: "started", value: { model: api.model } });
      const text = events.map((event) => (event.case === "data" ? event.value : "")).join("");
      expect(text).toBe(await askProvider(api, "case: plain", true));
      expect(events.at(-1)).toMatchObject({ case: "finished", value: { finishReason: "stop" } });
    }
    const { body } = await client.countMessageTokens(
      { body: bytes({ model: "model-b-1", messages: [{ role: "user", content: "Hello!" }] }) },
      account,
    );
    expect(JSON.parse(body)).toEqual({ input_tokens: 2 });
    for (const wrong of [
      read(client.relayMessages(request(messages, { container: "c" }), account)),
      read(client.relayResponses(request(responses, { store: true }), account)),
      read(client.relayResponses({ body: new TextEncoder().encode("[]") }, account)),
      read(client.relayMessages({ body: new Uint8Array([0xff, 0xff]) }, account)),
    ])
      expect((await errorOf(wrong)).code).toBe(Code.InvalidArgument);
  });
});
