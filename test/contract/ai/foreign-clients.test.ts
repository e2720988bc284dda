import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { type AIMessageChunk, HumanMessage } from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
import { APICallError, generateText, streamText } from "ai";
import OpenAI, { APIError, AuthenticationError, NotFoundError, RateLimitError } from "openai";
import { describe, expect, test } from "vitest";
import { tokensIn } from "../../../scripts/simulators/dialect-encoder.ts";
import { REPLY } from "../../../scripts/simulators/script.ts";
import { PROVIDERS } from "../../support/ai/calls.ts";
import { createKey } from "../../support/api-keys.ts";
import { testApp } from "../../support/app.ts";
import { randomAddress } from "../../support/http/client.ts";
import { until } from "../../support/until.ts";

/**
 * Clients of OpenAI's API, unchanged: each gets a base URL and a key, and nothing else. Requests
 * are counted by a `fetch` that passes them on.
 */
const app = await testApp();
const modelOf = (provider: string) => `${provider}/model-${provider.at(-1)}-1`;
const user = (content: string) => [{ role: "user" as const, content }];
const plain = `case: plain ${crypto.randomUUID()}`;
const USAGE = { input: tokensIn(plain), output: tokensIn(REPLY) };
/** A failure in the middle of a reply. */
const broken = () => `case: reset-midway ${crypto.randomUUID()}`;

/** What every client is given, and the number of its requests. */
async function connect(model = modelOf("provider-a")) {
  const { key } = await createKey(await app.signIn());
  const sent = { count: 0 };
  const address = randomAddress();
  const counted: typeof fetch = (input, init) => {
    sent.count++;
    const headers = new Headers(init?.headers);
    headers.set("x-forwarded-for", address);
    return fetch(input, { ...init, headers });
  };
  return { model, key, baseURL: `${app.url}/v1`, fetch: counted, sent };
}

/** A text from each client: as a whole, and as a stream with the number of its pieces. */
type Talk = (
  to: Awaited<ReturnType<typeof connect>>,
  content: string,
  signal?: AbortSignal,
) => Promise<{ text: string; pieces: number; usage: typeof USAGE | undefined; finish: unknown }>;

const openaiClient = ({ key, baseURL, fetch }: Awaited<ReturnType<typeof connect>>) =>
  new OpenAI({ apiKey: key, baseURL, fetch });

const CLIENTS: Record<string, { whole: Talk; stream: Talk }> = {
  openai: {
    async whole(to, content, signal) {
      const { choices, usage } = await openaiClient(to).chat.completions.create(
        { model: to.model, messages: user(content) },
        { signal },
      );
      const [{ message, finish_reason: finish } = { message: { content: "" } }] = choices;
      const counted = usage && { input: usage.prompt_tokens, output: usage.completion_tokens };
      return { text: message.content ?? "", pieces: 1, usage: counted, finish };
    },
    async stream(to, content, signal) {
      const stream = openaiClient(to).chat.completions.stream(
        { model: to.model, messages: user(content), stream_options: { include_usage: true } },
        { signal },
      );
      let pieces = 0;
      for await (const chunk of stream) if (chunk.choices[0]?.delta.content) pieces++;
      const { choices, usage } = await stream.finalChatCompletion();
      const counted = usage && { input: usage.prompt_tokens, output: usage.completion_tokens };
      const [first] = choices;
      return {
        ...{ text: first?.message.content ?? "", pieces, usage: counted },
        finish: first?.finish_reason,
      };
    },
  },
  "ai with @ai-sdk/openai-compatible": {
    async whole({ model, key, baseURL, fetch }, content, signal) {
      const provider = createOpenAICompatible({ name: "gatehouse", apiKey: key, baseURL, fetch });
      const { text, usage, finishReason } = await generateText({
        model: provider(model),
        messages: user(content),
        maxRetries: 0,
        ...(signal && { abortSignal: signal }),
      });
      return { text, pieces: 1, usage: countedBy(usage), finish: finishReason };
    },
    async stream({ model, key, baseURL, fetch }, content, signal) {
      const options = { name: "gatehouse", apiKey: key, baseURL, fetch, includeUsage: true };
      let failure: unknown;
      const reply = streamText({
        model: createOpenAICompatible(options)(model),
        messages: user(content),
        maxRetries: 0,
        onError: ({ error }) => {
          failure = error;
        },
        ...(signal && { abortSignal: signal }),
      });
      let [text, pieces] = ["", 0];
      for await (const piece of reply.textStream) {
        text += piece;
        pieces++;
      }
      if (failure !== undefined) throw failure;
      const [usage, finish] = [countedBy(await reply.usage), await reply.finishReason];
      return { text, pieces, usage, finish };
    },
  },
  "@langchain/openai": {
    async whole(to, content, signal) {
      const reply = await langchain(to).invoke([new HumanMessage(content)], signal && { signal });
      return { ...readMessage(reply), pieces: 1 };
    },
    async stream(to, content, signal) {
      const stream = await langchain(to).stream([new HumanMessage(content)], signal && { signal });
      const pieces: AIMessageChunk[] = [];
      for await (const piece of stream) pieces.push(piece);
      const whole = pieces.reduce((sum, piece) => sum.concat(piece));
      return { ...readMessage(whole), pieces: pieces.filter(({ text }) => text !== "").length };
    },
  },
};

const langchain = ({ model, key, baseURL, fetch }: Awaited<ReturnType<typeof connect>>) =>
  new ChatOpenAI({ model, apiKey: key, configuration: { baseURL, fetch }, maxRetries: 0 });

const countedBy = ({
  inputTokens,
  outputTokens,
}: {
  inputTokens?: number | undefined;
  outputTokens?: number | undefined;
}) =>
  inputTokens === undefined || outputTokens === undefined
    ? undefined
    : { input: inputTokens, output: outputTokens };

function readMessage({ text, usage_metadata: counted, response_metadata }: LangchainReply) {
  const usage = counted && { input: counted.input_tokens, output: counted.output_tokens };
  return { text, usage, finish: response_metadata.finish_reason };
}

/** What the tests read of a message of LangChain. */
type LangchainReply = {
  text: string;
  usage_metadata?: { input_tokens: number; output_tokens: number } | undefined;
  response_metadata: Record<string, unknown>;
};

describe.each(Object.entries(CLIENTS))(
  "POST /v1/chat/completions called by %s",
  (_name, { whole, stream }) => {
    test.each(PROVIDERS)("a complete reply of %s has its usage", async (provider) => {
      const to = await connect(modelOf(provider));
      const reply = { text: REPLY, pieces: 1, usage: USAGE, finish: "stop" };
      expect(await whole(to, plain)).toEqual(reply);
      expect(to.sent.count).toBe(1);
    });

    test.each(PROVIDERS)("a stream of %s has its usage", async (provider) => {
      const { pieces, ...reply } = await stream(await connect(modelOf(provider)), plain);
      expect(reply).toEqual({ text: REPLY, usage: USAGE, finish: "stop" });
      expect(pieces).toBeGreaterThanOrEqual(1);
    });

    test.each(PROVIDERS)("an interrupted stream of %s is an error", async (provider) => {
      const to = await connect(modelOf(provider));
      await expect(stream(to, broken())).rejects.toThrow();
    });

    test("an unknown model and an unknown key are errors immediately, without retries", async () => {
      for (const wrong of [{ model: "no-such-model" }, { key: "sk-gate-unknown" }])
        for (const talk of [whole, stream]) {
          const to = { ...(await connect()), ...wrong };
          await expect(talk(to, plain)).rejects.toThrow();
          expect(to.sent.count).toBe(1);
        }
    });

    test("an abort ends the call to the provider", async () => {
      const content = `case: silent-midway ${crypto.randomUUID()}`;
      const abort = new AbortController();
      const reply = stream(await connect(), content, abort.signal).catch((error: unknown) => error);
      const asked = () =>
        app.providers[0]?.requests.find(({ body }) => JSON.stringify(body).includes(content));
      await until("the request", () => asked() !== undefined);
      abort.abort();
      await until("its end", () => asked()?.closedAt !== undefined);
      await reply;
    });
  },
);

describe("/v1 called by openai", () => {
  test("lists models, each of which replies, and returns one by name", async () => {
    const client = openaiClient(await connect());
    const models = [];
    for await (const model of client.models.list()) models.push(model);
    const owners = new Set(models.map(({ owned_by }) => owned_by));
    expect([...owners].sort()).toEqual([...PROVIDERS]);
    const [first] = models;
    expect(await client.models.retrieve(first?.id ?? "")).toEqual(first);
    expect(await client.models.retrieve(modelOf("provider-b"))).toMatchObject({
      ...{ object: "model", owned_by: "provider-b" },
    });
    await expect(client.models.retrieve("no-such-model")).rejects.toThrow(NotFoundError);
  });

  test("errors have the client's classes, with code and param", async () => {
    const to = await connect();
    const errorOf = async (fields: object, client = openaiClient(to)) => {
      const request = { model: to.model, messages: user(plain), ...fields };
      const error = await client.chat.completions
        .create(request)
        .catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(APIError);
      return error as APIError;
    };
    const unknown = await errorOf({ model: "no-such-model" });
    expect(unknown).toBeInstanceOf(NotFoundError);
    expect(unknown).toMatchObject({ status: 404, code: "model_not_found", param: "model" });
    expect(await errorOf({ n: 2 })).toMatchObject({
      ...{ status: 400, param: "n" },
      code: "unsupported_value",
    });
    const stranger = openaiClient({ ...to, key: "sk-gate-unknown" });
    expect(await errorOf({}, stranger)).toBeInstanceOf(AuthenticationError);
    expect(to.sent.count).toBe(3);
  });

  test("a rate limit is 429 with the time to wait", async () => {
    const to = await connect();
    const client = new OpenAI({ ...{ apiKey: to.key, baseURL: to.baseURL }, maxRetries: 0 });
    const ask = () => client.models.list();
    let error: unknown;
    for (let i = 0; i < 320 && error === undefined; i++)
      await ask().catch((thrown: unknown) => {
        error = thrown;
      });
    expect(error).toBeInstanceOf(RateLimitError);
    expect(Number((error as APIError).headers?.get("retry-after"))).toBeGreaterThan(0);
  });

  test("an access token is accepted instead of a key", async () => {
    const { accessToken } = await app.signIn();
    const to = await connect();
    const client = openaiClient({ ...to, key: accessToken });
    const { choices } = await client.chat.completions.create({
      model: to.model,
      messages: user(plain),
    });
    expect(choices[0]?.message.content).toBe(REPLY);
  });

  test("a response names the model that replies, and fields without effect", async () => {
    const to = await connect();
    const { response } = await openaiClient(to)
      .chat.completions.create({
        ...{ model: to.model, messages: user(plain), temperature: 1 },
        ...{ user: "u-1", metadata: { team: "a" } },
      })
      .withResponse();
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "x-ai-provider": "provider-a",
      "x-ai-model": "model-a-1",
      "x-request-id": expect.any(String),
      "ratelimit-limit": "300",
    });
    expect(response.headers.get("x-ai-ignored")?.split(", ").sort()).toEqual([
      ...["metadata", "temperature", "user"],
    ]);
  });
});

test("POST /v1/chat/completions called by ai: an error has the status and the message of the response", async () => {
  const { whole } = CLIENTS["ai with @ai-sdk/openai-compatible"] as { whole: Talk };
  const error = await whole(await connect("no-such-model"), plain).catch(
    (thrown: unknown) => thrown,
  );
  expect(APICallError.isInstance(error)).toBe(true);
  expect(error).toMatchObject({
    statusCode: 404,
    message: expect.stringContaining("does not exist"),
  });
});
