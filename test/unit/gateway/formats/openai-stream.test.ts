import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, type HandlerContext } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import {
  AIService,
  type CompleteEventSchema,
  type CompleteRequest,
} from "../../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { ProviderFailure, Reason } from "../../../../gen/gatehouse/platform/v1/failure_pb.ts";
import {
  failWith,
  start,
  type TransportKind,
  transportKinds,
} from "../../../support/http/gateway.ts";
import { forTest } from "../../../support/suites.ts";

type Event = MessageInitShape<typeof CompleteEventSchema>;
type Complete = (request: CompleteRequest, context: HandlerContext) => AsyncIterable<Event>;

const DONE = "data: [DONE]";
const started: Event = {
  event: { case: "started", value: { id: "1-2", provider: "provider-a", model: "model-a-1" } },
};
const text = (value: string): Event => ({ event: { case: "text", value } });
const reasoning = (value: string): Event => ({ event: { case: "reasoning", value } });
const call = (value: { index: number; id?: string; name?: string; arguments?: string }): Event => ({
  event: { case: "toolCall", value },
});
const usage = { inputTokens: 9, outputTokens: 3, cachedInputTokens: 4, reasoningTokens: 2 };
const finished = (finishReason = "stop", withUsage = true): Event => ({
  event: { case: "finished", value: { finishReason, ...(withUsage && { usage }) } },
});
const USAGE = {
  prompt_tokens: 9,
  completion_tokens: 3,
  total_tokens: 12,
  prompt_tokens_details: { cached_tokens: 4, cache_write_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 2 },
};
const brokenOff = () =>
  failWith(Reason.PROVIDER_ERROR, Code.Internal, "It broke off.", {
    providerFailure: ProviderFailure.OTHER,
  } as object);

/** Starts a gateway whose services reply by these events. */
async function startReplies(transportKind: TransportKind, complete: Complete, settings = {}) {
  const server = await forTest(
    start((router) => router.service(AIService, { complete }), { transportKind, ...settings }),
  );
  const ask = (fields: object = {}, signal: AbortSignal | null = null) =>
    fetch(`${server.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        model: "m",
        messages: [{ role: "user", content: "Hello!" }],
        stream: true,
        ...fields,
      }),
      signal,
    });
  return { ...server, ask };
}

/** The events of a stream: JSON where they are. */
const eventsIn = (body: string) =>
  body
    .split("\n\n")
    .slice(0, -1)
    .map((event) => (event === DONE ? DONE : JSON.parse(event.replace(/^data: /, ""))));

describe.each(transportKinds)("POST /v1/chat/completions %s", (way) => {
  test("a stream starts with the role, ends with its finish_reason and [DONE], and names the model that replies", async () => {
    const server = await startReplies(way, async function* (_request, { responseHeader }) {
      responseHeader.set("x-ai-ignored", "user, topK");
      yield started;
      yield reasoning("Hm.");
      yield text("Grüße\u2028👋");
      yield finished();
    });
    const answer = await server.ask();
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "content-type": "text/event-stream",
      "x-ai-provider": "provider-a",
      "x-ai-model": "model-a-1",
      "x-ai-ignored": "user, topK",
    });
    const body = await answer.text();
    expect(body).toContain(String.raw`Grüße\u2028👋`);
    const [first, ...others] = eventsIn(body);
    const { id, object, created, model } = first;
    expect({ id, object, model }).toEqual({
      ...{ id: "chatcmpl-1-2", object: "chat.completion.chunk", model: "model-a-1" },
    });
    expect(created).toBeCloseTo(Date.now() / 1000, -2);
    const chunk = (delta: object, finish_reason: string | null = null) => ({
      ...{ id, object, created, model },
      choices: [{ index: 0, delta, logprobs: null, finish_reason }],
    });
    expect([first, ...others]).toEqual([
      chunk({ role: "assistant", content: "" }),
      chunk({ reasoning_content: "Hm." }),
      chunk({ content: "Grüße\u2028👋" }),
      chunk({}, "stop"),
      DONE,
    ]);
  });

  test("tool calls have an index from 0, and contain their id and name once", async () => {
    const server = await startReplies(way, async function* () {
      yield started;
      yield call({ index: 0, id: "call_1", name: "weather" });
      yield call({ index: 1, id: "call_2", name: "place", arguments: "{" });
      yield call({ index: 0, arguments: '{"city":"Bern"}' });
      yield call({ index: 1, arguments: "}" });
      yield finished("tool_calls");
    });
    const events = eventsIn(await (await server.ask()).text());
    const type = "function";
    expect(events.slice(1, -2).map(({ choices }) => choices[0].delta.tool_calls)).toEqual([
      [{ index: 0, id: "call_1", type, function: { name: "weather", arguments: "" } }],
      [{ index: 1, id: "call_2", type, function: { name: "place", arguments: "{" } }],
      [{ index: 0, function: { arguments: '{"city":"Bern"}' } }],
      [{ index: 1, function: { arguments: "}" } }],
    ]);
    expect(events.at(-2).choices[0].finish_reason).toBe("tool_calls");
    const { choices } = JSON.parse(await (await server.ask({ stream: false })).text());
    expect(choices).toEqual([
      {
        index: 0,
        message: {
          ...{ role: "assistant", content: null, refusal: null },
          tool_calls: [
            { id: "call_1", type, function: { name: "weather", arguments: '{"city":"Bern"}' } },
            { id: "call_2", type, function: { name: "place", arguments: "{}" } },
          ],
        },
        logprobs: null,
        finish_reason: "tool_calls",
      },
    ]);
  });

  test("include_usage adds one chunk without choices between the finish_reason and [DONE]", async () => {
    const server = await startReplies(way, async function* ({ model }) {
      yield started;
      yield text("a");
      yield finished("stop", model !== "unknown");
    });
    const options = { stream_options: { include_usage: true } };
    const events = eventsIn(await (await server.ask(options)).text());
    expect(events.slice(0, 3).map(({ usage }) => usage)).toEqual([null, null, null]);
    expect(events[3]).toMatchObject({ choices: [], usage: USAGE });
    expect(events.slice(4)).toEqual([DONE]);
    const unknown = eventsIn(await (await server.ask({ ...options, model: "unknown" })).text());
    expect(unknown[3]).toMatchObject({ choices: [], usage: null });
  });

  test("a complete reply is one document, with its usage if known", async () => {
    const server = await startReplies(way, async function* ({ model }, { responseHeader }) {
      responseHeader.set("x-ai-ignored", "user");
      yield started;
      yield reasoning("Hm.");
      yield text("Hel");
      yield text("lo.");
      yield finished("length", model !== "unknown");
    });
    const answer = await server.ask({ stream: false });
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "content-type": "application/json; charset=utf-8",
      "x-ai-provider": "provider-a",
      "x-ai-model": "model-a-1",
      "x-ai-ignored": "user",
    });
    const message = {
      role: "assistant",
      content: "Hello.",
      refusal: null,
      reasoning_content: "Hm.",
    };
    expect(await answer.json()).toEqual({
      id: "chatcmpl-1-2",
      object: "chat.completion",
      created: expect.any(Number),
      model: "model-a-1",
      choices: [{ index: 0, message, logprobs: null, finish_reason: "length" }],
      usage: USAGE,
    });
    expect(await (await server.ask({ stream: false, model: "unknown" })).json()).not.toHaveProperty(
      "usage",
    );
  });

  test("a stream that fails has an error before [DONE], and no finish_reason", async () => {
    const server = await startReplies(way, async function* () {
      yield started;
      yield text("a");
      throw brokenOff();
    });
    const body = await (await server.ask()).text();
    const events = eventsIn(body);
    const error = { message: "It broke off.", type: "server_error", param: null };
    expect(events.at(-2)).toEqual({ error: { ...error, code: "provider_error" } });
    expect(events.slice(0, -2).map(({ choices }) => choices[0].finish_reason)).toEqual([
      null,
      null,
    ]);
    expect(body).toMatch(/\n\ndata: \{"error":[^\n]+\n\ndata: \[DONE\]\n\n$/);
    expect((await server.ask({ stream: false })).status).toBe(500);
  });

  test("a reply that ends without its last event is an error", async () => {
    const server = await startReplies(way, async function* () {
      yield started;
      yield text("a");
    });
    const body = await (await server.ask()).text();
    expect(eventsIn(body).at(-2)).toMatchObject({
      error: { type: "server_error", code: "internal" },
    });
    expect(body).toMatch(/\n\ndata: \{"error":[^\n]+\n\ndata: \[DONE\]\n\n$/);
    expect((await server.ask({ stream: false })).status).toBe(500);
    expect(server.logs.filter(({ level }) => level === 50).length).toBe(2);
  });

  test("silence is filled with comments, and a later failure is an event", async () => {
    const gate = Promise.withResolvers<void>();
    const server = await startReplies(
      way,
      async function* () {
        await gate.promise;
        yield started;
        throw brokenOff();
      },
      { keepAliveMs: 20 },
    );
    const answer = await server.ask();
    expect(answer.status).toBe(200);
    gate.resolve();
    const body = await answer.text();
    expect(body).toMatch(/^: keep-alive\n\n/);
    expect(body).toMatch(
      /data: \{"error":\{"message":"It broke off\.".*\}\}\n\ndata: \[DONE\]\n\n$/,
    );
  });

  test.each([true, false])(
    "a client that disconnects ends the call (stream: %s)",
    async (stream) => {
      const [called, aborted] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const server = await startReplies(way, async function* (_request, { signal }) {
        signal.addEventListener("abort", () => aborted.resolve());
        yield started;
        yield text("a");
        called.resolve();
        await aborted.promise;
      });
      const client = new AbortController();
      const answer = server.ask({ stream }, client.signal);
      answer.catch(() => {}); // the client has aborted it
      await called.promise;
      client.abort();
      await aborted.promise;
    },
  );
});

test("GET /v1/models: lists models in OpenAI's format", async () => {
  const seconds = 1_795_564_800n;
  const model = { model: "model-a-1", provider: "provider-a", checkedAt: { seconds } };
  const server = await forTest(
    start((router) =>
      router.service(AIService, {
        listModels: () => ({ models: [model, { model: "b/c", provider: "b" }] }),
        getModel: () => ({ model }),
      }),
    ),
  );
  const card = {
    id: "model-a-1",
    object: "model",
    created: Number(seconds),
    owned_by: "provider-a",
  };
  expect((await server.send("GET", "/v1/models")).body).toEqual({
    object: "list",
    data: [card, { id: "b/c", object: "model", created: 0, owned_by: "b" }],
  });
  expect((await server.send("GET", "/v1/models/model-a-1")).body).toEqual(card);
});
