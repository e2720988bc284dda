import { createHash } from "node:crypto";
import { z } from "zod";
import { type ErrorAnswer, type Received, tokensIn } from "./dialect-encoder.ts";

/**
 * An embedding model: the usual length of its vectors, and whether requests may shorten them.
 */
type EmbeddingModel = { length: number; isShortened: boolean };

const OPENAI = {
  "text-embedding-3-small": { length: 1_536, isShortened: true },
  "text-embedding-3-large": { length: 3_072, isShortened: true },
};
const MISTRAL = { "mistral-embed": { length: 1_024, isShortened: false } };

/** The models of each dialect that has embeddings. */
export const EMBEDDING_MODELS: Readonly<Record<string, Readonly<Record<string, EmbeddingModel>>>> =
  { openai: OPENAI, "openai-compatible": MISTRAL };

const text = z.string().min(1);
const bodySchema = z.strictObject({
  model: z.string(),
  input: z.union([text, z.array(text).min(1).max(2_048)]),
  dimensions: z.int().min(1).optional(),
  encoding_format: z.enum(["float", "base64"]).default("float"),
});

const refusal = (status: number, code: string, message: string): ErrorAnswer => ({
  status,
  body: { error: { message, type: "invalid_request_error", param: null, code } },
});

/**
 * Answers a request for embeddings. The vector of a text is always the same, and that of another
 * text differs.
 * @param key the only valid one
 */
export function embed(
  { headers, body }: Pick<Received, "headers" | "body">,
  key: string,
  models: Readonly<Record<string, EmbeddingModel>>,
): { status: number; body: unknown } {
  if (headers.authorization !== `Bearer ${key}`) return refusal(401, "invalid_api_key", "Refused");
  const { data, error } = bodySchema.safeParse(body);
  if (error) return refusal(400, "invalid_value", error.message);
  const model = models[data.model];
  if (!model) return refusal(404, "model_not_found", "There is no such model.");
  const { dimensions = model.length, encoding_format } = data;
  if (dimensions > model.length || (!model.isShortened && dimensions !== model.length))
    return refusal(400, "invalid_value", "This model has no such dimensions.");
  const inputs = [data.input].flat();
  const tokens = inputs.reduce((sum, input) => sum + tokensIn(input), 0);
  return {
    status: 200,
    body: {
      object: "list",
      data: inputs.map((input, index) => {
        const vector = vectorOf(input, dimensions);
        const embedding = encoding_format === "base64" ? base64Of(vector) : [...vector];
        return { object: "embedding", index, embedding };
      }),
      model: data.model,
      usage: { prompt_tokens: tokens, total_tokens: tokens },
    },
  };
}

/** The vector of a text: 32-bit floats from -1 to 1. */
export function vectorOf(input: string, length: number): Float32Array {
  const vector = new Float32Array(length);
  const seed = createHash("sha256").update(input).digest().readUInt32LE();
  let state = seed;
  for (const index of vector.keys()) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    vector[index] = state / 2 ** 31 - 1;
  }
  return vector;
}

export const base64Of = (vector: Float32Array): string =>
  Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString("base64");
