import { Code } from "@connectrpc/connect";
import { test as base, describe, expect } from "vitest";
import { AIService, type RelayEvent } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { createKey } from "../../support/api-keys.ts";
import { testApp } from "../../support/app.ts";
import { bearer, postJson } from "../../support/http/client.ts";
import { errorOf } from "../../support/http/stub-services.ts";
import { until } from "../../support/until.ts";
import { RELAYED_APIS, type RelayedApi } from "./relayed-apis.ts";

const app = await testApp();
const test = base.extend("account", () => app.signIn());

/** Asks the provider of an API itself. */
async function askProvider(
  { path, provider, headers, bodyOf, upstream }: RelayedApi,
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

describe.each(RELAYED_APIS)("POST $path", (api) => {
  const { path, bodyOf, model, upstream, field, provider } = api;
  const requestsOf = (content: string) =>
    app.providers[provider]?.requests.filter(({ body }) =>
      JSON.stringify(body).includes(content),
    ) ?? [];

  test.for(["plain", "calling", "thinking", "idle", "comments", "multi-line", "bytes", "gzip"])(
    "events of a stream are unchanged: %s",
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
    "a complete reply is unchanged: %s",
    async (name, { account: { post } }) => {
      const content = `case: ${name}`;
      const { status, headers, body } = await post(path, bodyOf(content));
      expect([status, headers.get("x-ai-provider")]).toEqual([200, `provider-${model.at(-3)}`]);
      expect(body).toEqual(JSON.parse(await askProvider(api, content, false)));
    },
  );

  test("the body arrives unchanged, except for the name of the model", async ({
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

  test("a maximum above that of the model is lowered, and a smaller one is unchanged", async ({
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
  ])(
    "a stream that fails ends with an error and without its closing event: %s",
    async (name, { account: { post } }) => {
      const content = `case: ${name} ${crypto.randomUUID()}`;
      const { status, text } = await post(path, { ...bodyOf(content), stream: true });
      expect(status).toBe(200);
      expect(text).not.toContain(api.last);
      expect(text).toMatch(/\n\nevent: error\ndata: \{"type":"error",[^\n]+\}\n\n$/);
      expect(text).not.toContain("sk-echo");
      expect(text.match(/^event: error$/gm)).toHaveLength(1);
    },
  );

  test("a stream without its closing event fails, even if the text is complete", async ({
    account: { post },
  }) => {
    const direct = await askProvider(api, "case: plain", true);
    expect(direct).toContain(api.last);
    const { text } = await post(path, { ...bodyOf("case: no-closing-event"), stream: true });
    expect(textIn(text)).toBe(textIn(direct));
    expect(text).toMatch(/event: error\ndata: [^\n]+\n\n$/);
  });

  test.for(Object.entries(api.statuses))(
    "a failure before the first byte has the status and format of the API: %s",
    async ([name, status], { account: { post } }) => {
      for (const stream of [true, false]) {
        const answer = await post(path, { ...bodyOf(`case: ${name}`), stream });
        expect(answer.status).toBe(status);
        expect(answer.body.error).toMatchObject({
          type: expect.any(String),
          message: expect.stringContaining("The AI provider"),
        });
        expect(JSON.stringify(answer.body)).not.toContain("sk-echo");
        const isFinal = status === 400 || name === "bad-key";
        expect(answer.headers.get("x-should-retry")).toBe(isFinal ? "false" : null);
      }
    },
  );

  test("an unknown model is 404, and a model of another dialect is 400 with an explanation", async ({
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

  test("a key for other models gets 404, and a request without a key 401", async ({ account }) => {
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

  test("is 400 for an invalid model, stream and maximum, and lists all of them", async ({
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

  test("usage is as reported by the provider, streamed or not, and estimated for an interrupted reply", async ({
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

  test("a stream ends with an error when its key is revoked", async ({ account }) => {
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

describe("RelayMessages, RelayResponses, CountMessageTokens", () => {
  const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
  const read = async (events: AsyncIterable<RelayEvent>) => {
    const all: RelayEvent["event"][] = [];
    for await (const { event } of events) all.push(event);
    return all;
  };

  test("accept and reject the same over gRPC", async ({ account }) => {
    const client = app.grpc(AIService);
    const [messages, responses] = RELAYED_APIS;
    const request = (api: RelayedApi, fields: object = {}) => ({
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
