import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { OpenAIEmbeddings } from "@langchain/openai";
import { embed, embedMany } from "ai";
import OpenAI, { BadRequestError, InternalServerError, NotFoundError } from "openai";
import { describe, expect, test } from "vitest";
import { tokensIn } from "../../../scripts/simulators/dialect-encoder.ts";
import { vectorOf } from "../../../scripts/simulators/embeddings.ts";
import { startEmbeddingProvider } from "../../support/ai/embedding-provider.ts";
import { createKey } from "../../support/api-keys.ts";
import { startSuiteApp } from "../../support/app.ts";
import { forSuite } from "../../support/suites.ts";

/** Clients of OpenAI's API, unchanged: each gets a base URL and a key, and nothing else. */
const odd = await forSuite(startEmbeddingProvider());
const app = await startSuiteApp({ env: odd.env });
const { key } = await createKey(await app.signIn());
const baseURL = `${app.url}/v1`;
const TEXTS = ["Hello!", "Guten Abend, schöne Welt.", "👋"];
const TOKENS = TEXTS.reduce((sum, text) => sum + tokensIn(text), 0);

describe.each([
  { model: "embed-a", length: 1_536 },
  { model: "embed-d", length: 1_024 },
])("$model", ({ model, length }) => {
  const VECTORS = TEXTS.map((text) => [...vectorOf(text, length)]);

  test.each([undefined, "float"] as const)(
    "openai: embeddings.create, with the encoding %s",
    async (encoding_format) => {
      const client = new OpenAI({ apiKey: key, baseURL });
      const { data, usage } = await client.embeddings.create({
        ...{ model, input: TEXTS },
        ...(encoding_format && { encoding_format }),
      });
      expect(data.map(({ embedding }) => [...embedding])).toEqual(VECTORS);
      expect(usage).toMatchObject({ prompt_tokens: TOKENS, total_tokens: TOKENS });
    },
  );

  test("ai with @ai-sdk/openai-compatible: embed, embedMany", async () => {
    const provider = createOpenAICompatible({ name: "gatehouse", apiKey: key, baseURL });
    const many = await embedMany({ model: provider.embeddingModel(model), values: TEXTS });
    expect(many.embeddings).toEqual(VECTORS);
    expect(many.usage.tokens).toBe(TOKENS);
    const one = await embed({ model: provider.embeddingModel(model), value: TEXTS[0] as string });
    expect(one.embedding).toEqual(VECTORS[0]);
  });

  test("@langchain/openai: embedDocuments, embedQuery", async () => {
    const configuration = { baseURL };
    const embeddings = new OpenAIEmbeddings({ model, apiKey: key, configuration });
    expect((await embeddings.embedDocuments(TEXTS)).map((each) => [...each])).toEqual(VECTORS);
    expect([...(await embeddings.embedQuery(TEXTS[0] as string))]).toEqual(VECTORS[0]);
  });
});

test("openai: numbers arrive too if the provider has no base64", async () => {
  const vector = [0.5, -0.25, 3];
  odd.answerWith(() => ({ body: { data: [{ index: 0, embedding: vector }] } }));
  const client = new OpenAI({ apiKey: key, baseURL });
  const { data } = await client.embeddings.create({ model: "embed-odd", input: "Hello!" });
  expect([...(data[0]?.embedding ?? [])]).toEqual(vector);
});

test("openai: refusals and failures throw the client's errors", async () => {
  const client = new OpenAI({ apiKey: key, baseURL, maxRetries: 0 });
  const create = (model: string, input: string | number[] = "Hello!") =>
    client.embeddings.create({ model, input });
  await expect(create("no-such-model")).rejects.toBeInstanceOf(NotFoundError);
  await expect(create("model-a-1")).rejects.toBeInstanceOf(BadRequestError);
  await expect(create("embed-a", [1, 2])).rejects.toBeInstanceOf(BadRequestError);
  odd.answerWith(() => ({ body: { data: [] } }));
  await expect(create("embed-odd")).rejects.toBeInstanceOf(InternalServerError);
});
