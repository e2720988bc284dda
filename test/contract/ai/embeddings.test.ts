import { Code } from "@connectrpc/connect";
import { afterEach, test as base, beforeAll, describe, expect } from "vitest";
import {
  AIService,
  type Embedding,
  type EmbeddingsFinished,
  type Started,
} from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { FailureSchema, Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { tokensIn } from "../../../scripts/simulators/dialect-encoder.ts";
import { base64Of, vectorOf } from "../../../scripts/simulators/embeddings.ts";
import type { SignedIn } from "../../support/accounts.ts";
import { settledBudget, withBudget as withBudgetOf } from "../../support/ai/budgets.ts";
import {
  type EmbeddingRequest,
  embeddingsOf,
  PRICE_NANOS,
  startEmbeddingProvider,
} from "../../support/ai/embedding-provider.ts";
import { moneyIn } from "../../support/ai/priced-catalogue.ts";
import { createKey } from "../../support/api-keys.ts";
import { startSuiteApp } from "../../support/app.ts";
import { errorOf } from "../../support/http/stub-services.ts";
import { forSuite } from "../../support/suites.ts";
import { times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";

const odd = await forSuite(startEmbeddingProvider());
const app = await startSuiteApp({ env: { ...odd.env, RATE_LIMITS: "off" } });
const test = base.extend("account", () => app.signIn());
afterEach(() => odd.answerWith());
const PATH = "/v1/embeddings";
const TEXTS = ["Hello!", "Guten Abend, schöne Welt.", "👋"];
const TOKENS = TEXTS.reduce((sum, text) => sum + tokensIn(text), 0);
const costOf = (tokens: number) => moneyIn(BigInt(tokens) * PRICE_NANOS);
const requestOf = (fields: object = {}) => ({ model: "embed-a", input: TEXTS, ...fields });
const oddRequest = (fields: object = {}) => requestOf({ model: "embed-odd", ...fields });
const sentTo = (account: Pick<SignedIn, "post">, fields: object = {}) =>
  account.post(PATH, requestOf(fields));

type Init = { model?: string; input?: string[]; dimensions?: number; encodingFormat?: string };

/** The events of a call over gRPC. */
async function readEvents(fields: Init & { ignored?: string[] }, { headers }: SignedIn) {
  const read: { embeddings: Embedding[]; started?: Started; finished?: EmbeddingsFinished } = {
    embeddings: [],
  };
  let header: Headers | undefined;
  const onHeader = (given: Headers) => {
    header = given;
  };
  const events = app.grpc(AIService).createEmbeddings(requestOf(fields), { headers, onHeader });
  for await (const { event } of events) {
    if (event.case === "started") read.started = event.value;
    if (event.case === "embedding") read.embeddings.push(event.value);
    if (event.case === "finished") read.finished = event.value;
  }
  return { ...read, header };
}

describe.each([
  { model: "embed-a", provider: "provider-a", length: 1_536, cost: costOf(TOKENS) },
  { model: "embed-d", provider: "provider-d", length: 1_024, cost: undefined },
])("POST /v1/embeddings: $model", ({ model, provider, length, cost }) => {
  test("returns the numbers of the provider, in the order of the texts, with usage and cost", async ({
    account,
  }) => {
    const { status, headers, body } = await sentTo(account, { model });
    expect(status).toBe(200);
    expect([headers.get("x-ai-provider"), headers.get("x-ai-model")]).toEqual([provider, model]);
    expect(headers.get("x-ai-ignored")).toBeNull();
    expect(body).toEqual({
      object: "list",
      data: TEXTS.map((text, index) => ({
        object: "embedding",
        index,
        embedding: [...vectorOf(text, length)],
      })),
      model,
      usage: { prompt_tokens: TOKENS, total_tokens: TOKENS, ...(cost && { cost }) },
    });
  });

  test("returns base64 unchanged", async ({ account }) => {
    const { body } = await sentTo(account, { model, encoding_format: "base64" });
    expect(body.data.map(({ embedding }: { embedding: string }) => embedding)).toEqual(
      TEXTS.map((text) => base64Of(vectorOf(text, length))),
    );
  });

  test("accepts a single text, and provider/model", async ({ account }) => {
    const { body } = await sentTo(account, { model: `${provider}/${model}`, input: "Hello!" });
    expect(body.data).toHaveLength(1);
    expect(body.model).toBe(model);
  });
});

test("CreateEmbeddings: the events contain what REST returns", async ({ account }) => {
  const { started, embeddings, finished } = await readEvents({}, account);
  expect(started).toMatchObject({ provider: "provider-a", model: "embed-a", ignored: [] });
  expect(embeddings.map(({ index, numbers }) => [index, numbers])).toEqual(
    TEXTS.map((text, index) => [index, [...vectorOf(text, 1_536)]]),
  );
  expect(finished?.usage).toMatchObject({ inputTokens: TOKENS, outputTokens: 0 });
  expect(finished?.usage?.cost).toBe(costOf(TOKENS));
  const encoded = await readEvents({ encodingFormat: "base64" }, account);
  expect(encoded.embeddings.map(({ base64 }) => base64)).toEqual(
    TEXTS.map((text) => base64Of(vectorOf(text, 1_536))),
  );
});

test("POST /v1/embeddings: dimensions reach the provider, and are 400 if it rejects them", async ({
  account,
}) => {
  const { body } = await sentTo(account, { dimensions: 256, encoding_format: "float" });
  expect(body.data.map(({ embedding }: { embedding: [] }) => embedding.length)).toEqual([
    ...TEXTS.map(() => 256),
  ]);
  const refused = await sentTo(account, { model: "embed-d", dimensions: 256 });
  expect([refused.status, refused.body.error.code]).toEqual([400, "provider_rejected"]);
});

test("POST /v1/embeddings: numbers are not rounded, and are in the order of the texts", async ({
  account,
}) => {
  const numbers = "[0.1234567890123456789, 5e-324, -0.0000001, 123456789012345680000, -1.5E+3]";
  odd.answerWith(() => ({
    body: `{"data":[{"index":1,"embedding":[1,2,3,4,5]},{"index":0,"embedding":${numbers}}]}`,
  }));
  const { status, body } = await account.post(PATH, oddRequest({ input: ["a", "b"] }));
  expect(status).toBe(200);
  expect(body.data).toEqual([
    { object: "embedding", index: 0, embedding: JSON.parse(numbers) },
    { object: "embedding", index: 1, embedding: [1, 2, 3, 4, 5] },
  ]);
});

test.for([
  ["no index", [{ embedding: [1, 2] }, { embedding: [3, 4] }]],
  [
    "null as every index",
    [
      { index: null, embedding: [1, 2] },
      { index: null, embedding: [3, 4] },
    ],
  ],
  ["no index of zero", [{ embedding: [1, 2] }, { index: 1, embedding: [3, 4] }]],
] as const)(
  "POST /v1/embeddings: the order is that of the list with %s",
  async ([, data], { account }) => {
    odd.answerWith(() => ({ body: { data } }));
    const { status, body } = await account.post(PATH, oddRequest({ input: ["a", "b"] }));
    expect(status).toBe(200);
    expect(body.data).toEqual([
      { object: "embedding", index: 0, embedding: [1, 2] },
      { object: "embedding", index: 1, embedding: [3, 4] },
    ]);
  },
);

test("POST /v1/embeddings: numbers instead of base64 are encoded", async ({ account }) => {
  const vector = [0.1, -2, 3.5];
  odd.answerWith(() => ({ body: { data: [{ index: 0, embedding: vector }] } }));
  const { body } = await account.post(PATH, oddRequest({ input: "a", encoding_format: "base64" }));
  expect(body.data[0].embedding).toBe(base64Of(new Float32Array(vector)));
});

const item = (index: number, embedding: unknown = [1, 2]) => ({ index, embedding });
const WRONG: [name: string, body: object | string, fields?: object][] = [
  ["an embedding too few", { data: [item(0)] }],
  ["an embedding too many", { data: [item(0), item(1), item(2)] }],
  ["an index twice", { data: [item(0), item(0)] }],
  ["an index beyond the texts", { data: [item(0), item(2)] }],
  ["a negative index", { data: [item(0), item(-1)] }],
  ["an index that is the place of another", { data: [{ embedding: [1, 2] }, item(0)] }],
  ["an index that is text", { data: [item(0), { index: "1", embedding: [1, 2] }] }],
  ["vectors of different lengths", { data: [item(0), item(1, [1, 2, 3])] }],
  ["an empty vector", { data: [item(0, []), item(1, [])] }],
  ["null in a vector", { data: [item(0), item(1, [1, null])] }],
  [
    "a number beyond doubles",
    '{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1e999]}]}',
  ],
  ["text in place of numbers", { data: [item(0, "AACAPw=="), item(1, "AACAPw==")] }],
  ["nothing in place of a vector", { data: [null, item(1)] }],
  ["no data", { usage: { prompt_tokens: 1 } }],
  ["null", "null"],
  ["half a document", '{"data":['],
  ["other dimensions", { data: [item(0), item(1)] }, { dimensions: 3 }],
  [
    "text that is no base64",
    { data: [item(0, "%%%%"), item(1, "%%%%")] },
    { encoding_format: "base64" },
  ],
  [
    "half a float in base64",
    { data: [item(0, "AACA"), item(1, "AACA")] },
    { encoding_format: "base64" },
  ],
  [
    "no number in base64",
    {
      data: [
        item(0, base64Of(new Float32Array([1, 2]))),
        item(1, base64Of(new Float32Array([1, Number.NaN]))),
      ],
    },
    { encoding_format: "base64" },
  ],
  [
    "an infinite number in base64",
    {
      data: [
        item(0, base64Of(new Float32Array([1, -Infinity]))),
        item(1, base64Of(new Float32Array([1, 2]))),
      ],
    },
    { encoding_format: "base64" },
  ],
  [
    "a number beyond 32-bit floats",
    { data: [item(0), item(1, [1, 1e39])] },
    { encoding_format: "base64" },
  ],
  [
    "NaN in base64",
    { data: [item(0, base64Of(Float32Array.of(1, Number.NaN))), item(1, "AACAPwAAgD8=")] },
    { encoding_format: "base64" },
  ],
  [
    "infinity in base64",
    {
      data: [
        item(0, "AACAPwAAgD8="),
        item(1, base64Of(Float32Array.of(1, Number.NEGATIVE_INFINITY))),
      ],
    },
    { encoding_format: "base64" },
  ],
  ["an error", { error: { message: "sk-echo", code: "server_error" } }],
  [
    "millions of lists",
    `{"data":${JSON.stringify([item(0), item(1)])},"other":[${"[],".repeat(1_000_000)}[]]}`,
  ],
];

test.for(WRONG)(
  "POST /v1/embeddings: fails without returning a vector if the reply contains %s",
  async ([, body, fields], { account }) => {
    odd.answerWith(() => ({ body }));
    const answer = await account.post(PATH, oddRequest({ input: ["a", "b"], ...fields }));
    expect([answer.status, answer.body.error.code]).toEqual([500, "provider_error"]);
    expect(answer.text).not.toMatch(/"data"|sk-echo/);
  },
);

test("POST /v1/embeddings: fails if the reply exceeds 48 MiB", async ({ account }) => {
  odd.answerWith(() => ({ body: `{"data":[],"padding":"${"x".repeat(49 * 1024 * 1024)}"}` }));
  const { status, body } = await account.post(PATH, oddRequest());
  expect([status, body.error.message]).toEqual([500, expect.stringContaining("reply too large")]);
});

test("CreateEmbeddings: an invalid reply is a failure before the first event", async ({
  account,
}) => {
  odd.answerWith(() => ({ body: { data: [item(0), item(0)] } }));
  const request = { model: "embed-odd", input: ["a", "b"] };
  const error = await errorOf(readEvents(request, account));
  expect(error.findDetails(FailureSchema)[0]?.reason).toBe(Reason.PROVIDER_ERROR);
});

test("POST /v1/embeddings: is sent again after a failure, and with the next key if the first is refused", async ({
  account,
}) => {
  const before = odd.requests.length;
  odd.answerWith((request) =>
    odd.requests.length === before + 1
      ? { status: 503, body: { error: { code: "overloaded" } } }
      : { body: embeddingsOf(request) },
  );
  expect((await account.post(PATH, oddRequest())).status).toBe(200);
  expect(odd.requests.slice(before)).toHaveLength(2);
  odd.answerWith((request) =>
    request.key === "odd-first"
      ? { status: 401, body: { error: { code: "invalid_api_key" } } }
      : { body: embeddingsOf(request) },
  );
  expect((await account.post(PATH, oddRequest())).status).toBe(200);
  expect(odd.requests.at(-1)?.key).toBe("odd-second");
});

test.each([
  [429, "rate_limit_exceeded", 429, "provider_rate_limited"],
  [503, "overloaded", 503, "provider_overloaded"],
  [400, "invalid_value", 400, "provider_rejected"],
])(
  "POST /v1/embeddings: %s %s from the provider becomes %s %s",
  async (status, code, ours, ourCode) => {
    const account = await app.signIn();
    odd.answerWith(() => ({ status, body: { error: { code, message: "sk-echo" } } }));
    const answer = await account.post(PATH, oddRequest());
    expect([answer.status, answer.body.error.code]).toEqual([ours, ourCode]);
    expect(answer.text).not.toContain("sk-echo");
  },
);

const REFUSED: [field: string, fields: object][] = [
  ["input", { input: undefined }],
  ["input", { input: [] }],
  ["input[0]", { input: "" }],
  ["input[1]", { input: ["a", ""] }],
  ["input", { input: [1, 2] }],
  ["input", { input: [[1, 2], [3]] }],
  ["input", { input: { text: "a" } }],
  ["input", { input: Array(2_049).fill("a") }],
  ["input", { input: "a".repeat(4_000_001) }],
  ["model", { model: undefined }],
  ["model", { model: "model-a-1" }],
  ["model", { model: "model-b-1" }],
  ["model", { model: "assistant" }],
  ["dimensions", { dimensions: 0 }],
  ["dimensions", { dimensions: "256" }],
  ["encoding_format", { encoding_format: "int8" }],
];

const shortOf = (fields: object) => JSON.stringify(fields).slice(0, 60);

test.for(REFUSED.map(([field, fields]) => ({ field, fields, request: shortOf(fields) })))(
  "POST /v1/embeddings: rejects $field in $request",
  async ({ field, fields }, { account }) => {
    const { status, body } = await sentTo(account, fields);
    expect([status, body.error.param]).toEqual([400, field]);
  },
);

test("POST /v1/embeddings: refusals contain an explanation", async ({ account }) => {
  const sentences = [
    [{ input: [1, 2] }, "input is not supported as tokens, which differ between models: send text"],
    [{ model: "model-a-1" }, "model is not an embedding model: use POST /v1/chat/completions"],
    [{ model: "assistant" }, "name an embedding model"],
  ] as const;
  for (const [fields, sentence] of sentences) {
    const { body } = await sentTo(account, fields);
    expect(body.error.message).toContain(sentence);
    expect(body.error.code).toBe("unsupported_value");
  }
  const unknown = await sentTo(account, { model: "no-such-model" });
  expect([unknown.status, unknown.body.error.code]).toEqual([404, "model_not_found"]);
});

test.each<[string, Init]>([
  ["no text", { input: [] }],
  ["an empty text", { input: [""] }],
  ["2,049 texts", { input: Array(2_049).fill("a") }],
  ["4,000,001 characters", { input: ["a".repeat(4_000_001)] }],
  ["a model for conversations", { model: "model-a-1" }],
  ["an alias", { model: "assistant" }],
  ["dimensions of 0", { dimensions: 0 }],
  ["another format", { encodingFormat: "int8" }],
])("CreateEmbeddings: rejects %s", async (_what, fields) => {
  const error = await errorOf(readEvents(fields, await app.signIn()));
  expect(error.code).toBe(Code.InvalidArgument);
  expect(error.findDetails(FailureSchema)[0]?.reason).toBe(Reason.VALIDATION_FAILED);
});

test("POST /v1/embeddings, CreateEmbeddings: 2,048 texts are accepted", async ({ account }) => {
  const input = Array.from({ length: 2_048 }, (_each, index) => `text ${index}`);
  const { status, body } = await sentTo(account, { input, dimensions: 8 });
  expect([status, body.data.length]).toEqual([200, 2_048]);
  expect(body.data[2_047].embedding).toEqual([...vectorOf("text 2047", 8)]);
  const { embeddings } = await readEvents({ input, dimensions: 8 }, account);
  expect(embeddings).toHaveLength(2_048);
});

test("POST /v1/embeddings, CreateEmbeddings: a reply of 5 MB is returned", async ({ account }) => {
  const input = Array.from({ length: 600 }, (_each, index) => `text ${index}`);
  const { body } = await sentTo(account, { input, encoding_format: "base64" });
  expect(body.data.map(({ embedding }: { embedding: string }) => embedding)).toEqual(
    input.map((text) => base64Of(vectorOf(text, 1_536))),
  );
  const { embeddings } = await readEvents({ input, encodingFormat: "base64" }, account);
  expect(embeddings.at(-1)?.base64).toBe(base64Of(vectorOf("text 599", 1_536)));
});

test("POST /v1/embeddings, CreateEmbeddings: fields without effect are listed", async ({
  account,
}) => {
  const { headers } = await sentTo(account, { user: "u-1", top_k: 1, dimensions: null });
  expect(headers.get("x-ai-ignored")).toBe("user, top_k");
  const { header, started } = await readEvents({ ignored: ["user"] }, account);
  expect([header?.get("x-ai-ignored"), started?.ignored]).toEqual(["user", ["user"]]);
  expect(JSON.stringify(app.providers[0]?.requests.at(-1)?.body)).not.toContain("user");
});

describe("An embedding model", () => {
  const SENTENCE = "is an embedding model: use POST /v1/embeddings";
  const messages = [{ role: "user", content: "Hello!" }];

  test("is rejected by every route for conversations, with an explanation", async ({ account }) => {
    const calls: [path: string, body: object][] = [
      ["/v1/chat/completions", { model: "embed-a", messages }],
      ["/v1/responses", { model: "embed-a", input: "Hello!" }],
      ["/v1/messages", { model: "embed-a", max_tokens: 10, messages }],
      ["/ai/chat", { provider: "provider-a", model: "embed-a", messages }],
      ["/ai/stream", { provider: "provider-a", model: "embed-a", messages }],
    ];
    for (const [path, body] of calls) {
      const answer = await account.post(path, body);
      expect([answer.status, answer.text], path).toEqual([400, expect.stringContaining(SENTENCE)]);
    }
    const only = await account.post("/ai/chat", { provider: "odd", messages });
    expect([only.status, only.body.code]).toEqual([400, "VALIDATION_FAILED"]);
  });

  test("is listed by GET /v1/models, and not by GET /ai/providers", async ({ account }) => {
    const { body } = await account.get("/v1/models");
    const ids = body.data.map(({ id }: { id: string }) => id);
    expect(ids).toEqual(expect.arrayContaining(["embed-a", "embed-d", "embed-odd", "model-a-1"]));
    expect((await account.get("/v1/models/embed-a")).body.owned_by).toBe("provider-a");
    const { body: providers } = await account.get("/ai/providers");
    expect(JSON.stringify(providers)).not.toMatch(/embed|"odd"/);
  });

  test("can be called with an API key that allows it, and is 404 with another", async ({
    account,
  }) => {
    const client = app.httpClient();
    const { key } = await createKey(account, { models: ["embed-a"] });
    const other = await createKey(account, { models: ["model-a-1", "embed-d"] });
    expect((await client.post(PATH, requestOf(), key)).status).toBe(200);
    const refused = await client.post(PATH, requestOf(), other.key);
    expect([refused.status, refused.body.error.code]).toEqual([404, "model_not_found"]);
    const chat = await client.post("/v1/chat/completions", { model: "model-a-1", messages }, key);
    expect(chat.status).toBe(404);
    expect((await client.post(PATH, requestOf())).status).toBe(401);
  });
});

type Row = { outcome: string; input_tokens: number; estimated: boolean };

/** The rows of all calls of a user, once they have ended. */
const rowsOf = ({ user }: SignedIn, count: number) =>
  until("the usage", async () => {
    const columns =
      "outcome, provider, model, input_tokens, output_tokens, estimated, attempts, cost_nanos::text as cost";
    const query = `select ${columns} from ai_usage where user_id = ? order by id`;
    const rows = await app.sql<Row>(query, [user.id]);
    return rows.filter(({ outcome }) => outcome !== "running").length === count ? rows : undefined;
  });

test("POST /v1/embeddings: usage is that of the provider or an estimate, without output", async ({
  account,
}) => {
  await sentTo(account);
  odd.answerWith(({ input }) => ({ body: { data: embeddingsOf({ input }).data } }));
  const { body } = await account.post(PATH, oddRequest());
  expect(body).not.toHaveProperty("usage");
  odd.answerWith(() => ({ body: { data: [], usage: { prompt_tokens: 77 } } }));
  await account.post(PATH, oddRequest());
  const counted = { output_tokens: 0, attempts: 1, outcome: "completed" };
  expect(await rowsOf(account, 3)).toEqual([
    {
      ...{ ...counted, provider: "provider-a", model: "embed-a", estimated: false },
      ...{ input_tokens: TOKENS, cost: String(BigInt(TOKENS) * PRICE_NANOS) },
    },
    {
      ...{ ...counted, provider: "odd", model: "embed-odd", estimated: true },
      ...{ input_tokens: expect.any(Number), cost: expect.any(String) },
    },
    {
      ...{ ...counted, provider: "odd", model: "embed-odd", estimated: false },
      ...{ outcome: "unreadable reply", input_tokens: 77, cost: String(77n * PRICE_NANOS) },
    },
  ]);
});

describe("A budget", () => {
  /** What a call may have at most: the bytes of its texts and 16 tokens for each, twice. */
  const MOST = 2 * TEXTS.reduce((sum, text) => sum + Buffer.byteLength(text) + 16, 0);

  const withBudget = (limit: string | number, unit = "tokens") =>
    withBudgetOf(app, { limit, unit });

  beforeAll(async () => {
    const account = await withBudget(1_000_000);
    await until("every process to know that there are budgets", async () => {
      const answers = await Promise.all(times(8, () => sentTo(account)));
      return answers.every(({ headers }) => headers.has("x-budget-limit"));
    });
  });

  test("of tokens refuses a call that may exceed it, and books the actual usage", async () => {
    const short = await withBudget(MOST - 1);
    const { status, body, headers } = await sentTo(short);
    expect([status, body.error.code]).toEqual([429, "budget_exceeded"]);
    expect(headers.get("x-budget-limit")).toBe(String(MOST - 1));
    const error = await errorOf(readEvents({}, short));
    expect(error.findDetails(FailureSchema)[0]?.reason).toBe(Reason.BUDGET_EXCEEDED);
    const enough = await withBudget(MOST);
    const answer = await sentTo(enough);
    expect([answer.status, answer.headers.get("x-budget-remaining")]).toEqual([200, "0"]);
    expect((await settledBudget(enough)).used).toBe(String(TOKENS));
  });

  test("of money is exact to the reserved cost, and refuses a model without a price", async () => {
    const most = moneyIn(BigInt(MOST) * PRICE_NANOS);
    const account = await withBudget(most, "cost");
    expect((await sentTo(account)).status).toBe(200);
    expect((await settledBudget(account)).used).toBe(costOf(TOKENS));
    expect((await sentTo(account)).status).toBe(429);
    const unpriced = await sentTo(account, { model: "embed-d" });
    expect([unpriced.status, unpriced.body.error.code]).toEqual([403, "model_not_priced"]);
  });

  test("releases everything after a failure before the input was read", async () => {
    const account = await withBudget(MOST);
    odd.answerWith(() => ({ status: 400, body: { error: { code: "invalid_value" } } }));
    expect((await account.post(PATH, oddRequest())).status).toBe(400);
    odd.answerWith();
    expect((await settledBudget(account)).used).toBe("0");
  });
});

test("POST /v1/embeddings: the provider gets only the texts", async ({ account }) => {
  await account.post(PATH, oddRequest({ dimensions: 4, user: "u-1" }));
  const { key: _key, ...body } = odd.requests.at(-1) as EmbeddingRequest;
  expect(body).toEqual({ model: "odd", input: TEXTS, dimensions: 4 });
});
